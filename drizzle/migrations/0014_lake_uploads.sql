CREATE TABLE "lake_upload" (
	"key" text PRIMARY KEY NOT NULL,
	"branch" text,
	"size" bigint NOT NULL,
	"checksum" text NOT NULL,
	"removed_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE INDEX "lake_upload_created" ON "lake_upload" USING btree ("created_at");