ALTER TABLE "run" DROP CONSTRAINT "run_pipeline_id_pipeline_id_fk";
--> statement-breakpoint
DROP INDEX "run_queue";--> statement-breakpoint
CREATE INDEX "run_queue" ON "run" USING btree ("pipeline_id","status" DESC NULLS LAST,"created_at","id") WHERE waiting;