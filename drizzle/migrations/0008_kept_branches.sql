ALTER TABLE "lake_ref" ADD COLUMN "kept_until" timestamp (3) with time zone;--> statement-breakpoint
CREATE INDEX "lake_ref_kept" ON "lake_ref" USING btree ("kept_until") WHERE kept_until is not null;