CREATE TABLE "access_grant" (
	"id" uuid PRIMARY KEY NOT NULL,
	"grantor_id" text NOT NULL,
	"grantee_id" text NOT NULL,
	"resource_type" text NOT NULL,
	"resource_id" uuid NOT NULL,
	"permission" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "access_grant_once" UNIQUE("resource_id","grantee_id","grantor_id","resource_type"),
	CONSTRAINT "access_grant_type" CHECK ("access_grant"."resource_type" in ('pipeline', 'namespace', 'landing_zone')),
	CONSTRAINT "access_grant_permission" CHECK ("access_grant"."permission" in ('read', 'write', 'admin'))
);
--> statement-breakpoint
ALTER TABLE "namespace" ADD COLUMN "id" uuid DEFAULT gen_random_uuid() NOT NULL;--> statement-breakpoint
ALTER TABLE "namespace" ADD COLUMN "owner" text;--> statement-breakpoint
CREATE INDEX "access_grant_grantee" ON "access_grant" USING btree ("grantee_id","resource_type","resource_id");--> statement-breakpoint
CREATE INDEX "landing_zone_owner" ON "landing_zone" USING btree ("owner") WHERE owner is not null;--> statement-breakpoint
CREATE INDEX "namespace_owner" ON "namespace" USING btree ("owner") WHERE owner is not null;--> statement-breakpoint
CREATE INDEX "pipeline_owner" ON "pipeline" USING btree ("owner") WHERE owner is not null;--> statement-breakpoint
ALTER TABLE "namespace" ADD CONSTRAINT "namespace_id" UNIQUE("id");