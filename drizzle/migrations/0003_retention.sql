ALTER TABLE "reaper_status" ADD COLUMN "failures" jsonb DEFAULT '[]'::jsonb NOT NULL;--> statement-breakpoint
CREATE INDEX "branch_entry_content" ON "branch_entry" USING btree ("content_id");--> statement-breakpoint
CREATE INDEX "lake_ref_closed" ON "lake_ref" USING btree ("closed_at") WHERE closed_at is not null;--> statement-breakpoint
CREATE INDEX "main_entry_content" ON "main_entry" USING btree ("content_id");--> statement-breakpoint
CREATE INDEX "landing_file_archived" ON "landing_file" USING btree ("archived_at","id") WHERE archived_by_run is not null;--> statement-breakpoint
CREATE INDEX "landing_file_in_place" ON "landing_file" USING btree ("archived_by_run") WHERE archived_by_run is not null and position('/_processed/' in path) = 0;--> statement-breakpoint
CREATE INDEX "pipeline_deleted" ON "pipeline" USING btree ("deleted_at") WHERE deleted_at is not null;