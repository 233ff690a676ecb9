ALTER TABLE "run" DROP CONSTRAINT "run_pipeline_id_pipeline_id_fk";
