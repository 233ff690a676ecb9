DROP INDEX "run_attempt_one_open";--> statement-breakpoint
DROP INDEX "run_success";--> statement-breakpoint
DROP INDEX "run_queue";--> statement-breakpoint
DROP INDEX "run_one_running";--> statement-breakpoint
ALTER TABLE "run_attempt" ADD COLUMN "run_branch" text DEFAULT 'main' NOT NULL;--> statement-breakpoint
ALTER TABLE "run" ADD COLUMN "branch" text DEFAULT 'main' NOT NULL;--> statement-breakpoint
ALTER TABLE "run" ADD COLUMN "draft" boolean DEFAULT false NOT NULL;--> statement-breakpoint
CREATE INDEX "run_of_branch" ON "run" USING btree ("branch") WHERE status in ('pending', 'running') and branch <> 'main';--> statement-breakpoint
CREATE UNIQUE INDEX "run_attempt_one_open" ON "run_attempt" USING btree ("pipeline_id","run_branch") WHERE state = 'open';--> statement-breakpoint
CREATE INDEX "run_success" ON "run" USING btree ("pipeline_id","finished_at","id") WHERE status = 'success' and branch = 'main';--> statement-breakpoint
CREATE INDEX "run_queue" ON "run" USING btree ("pipeline_id","branch","status" DESC NULLS LAST,"created_at","id") WHERE waiting;--> statement-breakpoint
CREATE UNIQUE INDEX "run_one_running" ON "run" USING btree ("pipeline_id","branch") WHERE status = 'running';