ALTER TABLE "lake_content" ADD COLUMN "operation" text;--> statement-breakpoint
ALTER TABLE "lake_content" ADD COLUMN "rows_added" bigint;--> statement-breakpoint
ALTER TABLE "lake_content" ADD COLUMN "rows_removed" bigint;