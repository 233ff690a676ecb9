ALTER TABLE "lake_commit" ADD COLUMN "author" text;--> statement-breakpoint
ALTER TABLE "lake_commit" ADD COLUMN "tables" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "lake_ref" ADD COLUMN "kind" text DEFAULT 'run' NOT NULL;--> statement-breakpoint
ALTER TABLE "lake_ref" ADD COLUMN "parent" text;--> statement-breakpoint
ALTER TABLE "lake_ref" ADD COLUMN "description" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "lake_ref" ADD COLUMN "created_by" text;--> statement-breakpoint
ALTER TABLE "lake_ref" ADD COLUMN "expires_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "lake_ref" ADD COLUMN "updated_at" timestamp (3) with time zone;--> statement-breakpoint
CREATE INDEX "branch_entry_base_content" ON "branch_entry" USING btree ("base_content");--> statement-breakpoint
CREATE INDEX "lake_ref_listed" ON "lake_ref" USING btree ("kind","name") WHERE kind in ('user', 'tag');--> statement-breakpoint
CREATE INDEX "lake_ref_parent" ON "lake_ref" USING btree ("parent") WHERE parent is not null;--> statement-breakpoint
ALTER TABLE "lake_ref" ADD CONSTRAINT "lake_ref_kind" CHECK ("lake_ref"."kind" in ('main', 'run', 'user', 'tag'));--> statement-breakpoint
UPDATE "lake_ref" SET "kind" = 'main' WHERE "name" = 'main';
--> statement-breakpoint
UPDATE "lake_commit" c SET "tables" = array(
  SELECT e.namespace || '.' || e.layer || '.' || e.name FROM main_entry e WHERE e.from_commit = c.number ORDER BY 1)
WHERE c.number IS NOT NULL;
