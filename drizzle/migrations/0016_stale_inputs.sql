ALTER TABLE "run_review" ADD COLUMN "input_tables" text[] DEFAULT '{}'::text[] NOT NULL;--> statement-breakpoint
ALTER TABLE "run_review" ADD COLUMN "stale_inputs" jsonb;--> statement-breakpoint
CREATE INDEX "quality_result_failed" ON "quality_result" USING btree ("pipeline_id") WHERE status = 'failed';--> statement-breakpoint
CREATE INDEX "run_on_branch" ON "run" USING btree ("branch","created_at","id") WHERE branch <> 'main';