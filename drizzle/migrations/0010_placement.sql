ALTER TABLE "pipeline_version" ADD COLUMN "placement" jsonb;--> statement-breakpoint
ALTER TABLE "run" ADD COLUMN "placement" jsonb;--> statement-breakpoint
ALTER TABLE "run" ADD COLUMN "waiting_reason" text;