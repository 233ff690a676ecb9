ALTER TABLE "lake_ref" ADD COLUMN "authors" text[] DEFAULT '{}'::text[] NOT NULL;--> statement-breakpoint
ALTER TABLE "namespace" ADD COLUMN "protection" jsonb DEFAULT '{"review":"none"}'::jsonb NOT NULL;--> statement-breakpoint
ALTER TABLE "pipeline" ADD COLUMN "draft_authors" text[] DEFAULT '{}'::text[] NOT NULL;--> statement-breakpoint
ALTER TABLE "pipeline" ADD COLUMN "review" text;--> statement-breakpoint
UPDATE "lake_ref" b SET "authors" = array(
  SELECT c."author" FROM "lake_commit" c WHERE c."ref" = b."name" AND c."number" IS NULL AND c."author" IS NOT NULL
  UNION
  SELECT r."requested_by" FROM "lake_commit" c JOIN "run" r ON r."id" = c."run_id"
  WHERE c."ref" = b."name" AND c."number" IS NULL AND r."requested_by" IS NOT NULL)
WHERE b."kind" = 'user' AND b."state" = 'open';
