CREATE TABLE "run_review" (
	"run_id" uuid PRIMARY KEY NOT NULL,
	"attempt" integer NOT NULL,
	"entered_at" timestamp (3) with time zone NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"timeout_hours" integer NOT NULL,
	"four_eyes" boolean NOT NULL,
	"reviewed_ms" bigint DEFAULT 0 NOT NULL,
	"tested_commit" uuid NOT NULL,
	"rows_written" bigint NOT NULL,
	"landing_file_ids" uuid[] NOT NULL,
	"archives_landing_zones" boolean NOT NULL
);
--> statement-breakpoint
DROP INDEX "run_one_running";--> statement-breakpoint
ALTER TABLE "run" ADD COLUMN "requested_by" text;--> statement-breakpoint
CREATE INDEX "run_in_review" ON "run" USING btree ("id") WHERE status = 'running' and phase = 'review';--> statement-breakpoint
CREATE UNIQUE INDEX "run_one_running" ON "run" USING btree ("pipeline_id","branch") WHERE status = 'running' and phase not in ('review', 'waiting');