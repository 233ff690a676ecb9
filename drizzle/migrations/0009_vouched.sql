ALTER TABLE "pipeline" ADD COLUMN "handed_before" text[] DEFAULT '{}'::text[] NOT NULL;--> statement-breakpoint
ALTER TABLE "pipeline" ADD COLUMN "vouched_version" integer;