ALTER TABLE "pipeline_version" ADD COLUMN "tags" text[] DEFAULT '{}'::text[] NOT NULL;--> statement-breakpoint
ALTER TABLE "pipeline" ADD COLUMN "tags" text[] DEFAULT '{}'::text[] NOT NULL;--> statement-breakpoint
ALTER TABLE "quality_result" ADD COLUMN "samples" text[] DEFAULT '{}'::text[] NOT NULL;