CREATE TABLE "reaper_status" (
	"is_only" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"last_run_at" timestamp (3) with time zone,
	"runs_pruned" bigint DEFAULT 0 NOT NULL,
	"logs_pruned" bigint DEFAULT 0 NOT NULL,
	"quality_pruned" bigint DEFAULT 0 NOT NULL,
	"pipelines_purged" bigint DEFAULT 0 NOT NULL,
	"runs_failed" bigint DEFAULT 0 NOT NULL,
	"branches_cleaned" bigint DEFAULT 0 NOT NULL,
	"lz_files_cleaned" bigint DEFAULT 0 NOT NULL,
	"audit_pruned" bigint DEFAULT 0 NOT NULL,
	"history_pruned" bigint DEFAULT 0 NOT NULL,
	"snapshots_expired" bigint DEFAULT 0 NOT NULL,
	"lake_files_removed" bigint DEFAULT 0 NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "reaper_status_one" CHECK ("reaper_status"."is_only")
);
--> statement-breakpoint
CREATE TABLE "retention_config" (
	"is_only" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"runs_max_per_pipeline" integer DEFAULT 100 NOT NULL,
	"runs_max_age_days" integer DEFAULT 90 NOT NULL,
	"logs_max_age_days" integer DEFAULT 30 NOT NULL,
	"quality_results_max_per_test" integer DEFAULT 100 NOT NULL,
	"soft_delete_purge_days" integer DEFAULT 30 NOT NULL,
	"stuck_run_timeout_minutes" integer DEFAULT 120 NOT NULL,
	"audit_log_max_age_days" integer DEFAULT 365 NOT NULL,
	"nessie_orphan_branch_max_age_hours" integer DEFAULT 6 NOT NULL,
	"reaper_interval_minutes" integer DEFAULT 60 NOT NULL,
	"iceberg_snapshot_max_age_days" integer DEFAULT 7 NOT NULL,
	"iceberg_orphan_file_max_age_days" integer DEFAULT 3 NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "retention_config_one" CHECK ("retention_config"."is_only")
);
--> statement-breakpoint
CREATE TABLE "retention_override" (
	"pipeline_id" uuid PRIMARY KEY NOT NULL,
	"runs_max_per_pipeline" integer,
	"runs_max_age_days" integer,
	"logs_max_age_days" integer,
	"quality_results_max_per_test" integer
);
--> statement-breakpoint
CREATE TABLE "audit_entry" (
	"id" uuid PRIMARY KEY NOT NULL,
	"user_id" text NOT NULL,
	"action" text NOT NULL,
	"resource" text NOT NULL,
	"detail" text DEFAULT '' NOT NULL,
	"ip" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "idempotency_key" (
	"caller" text NOT NULL,
	"operation" text NOT NULL,
	"key" text NOT NULL,
	"request_hash" text NOT NULL,
	"status" integer NOT NULL,
	"body" jsonb NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "idempotency_key_caller_operation_key_pk" PRIMARY KEY("caller","operation","key")
);
--> statement-breakpoint
CREATE TABLE "leader" (
	"role" text PRIMARY KEY NOT NULL,
	"holder" text NOT NULL,
	"backend_pid" integer NOT NULL,
	"epoch" bigint NOT NULL,
	"until" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "schedule" (
	"id" uuid PRIMARY KEY NOT NULL,
	"pipeline_id" uuid NOT NULL,
	"cron" text NOT NULL,
	"enabled" boolean DEFAULT true NOT NULL,
	"next_run_at" timestamp (3) with time zone,
	"last_run_at" timestamp (3) with time zone,
	"last_run_id" uuid,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "trigger_dependency" (
	"trigger_id" uuid NOT NULL,
	"source" text NOT NULL,
	"used_run" uuid,
	CONSTRAINT "trigger_dependency_trigger_id_source_pk" PRIMARY KEY("trigger_id","source")
);
--> statement-breakpoint
CREATE TABLE "trigger_event" (
	"id" bigserial PRIMARY KEY NOT NULL,
	"kind" text NOT NULL,
	"source" text NOT NULL,
	"subject" uuid NOT NULL,
	"filename" text,
	"chain_depth" integer DEFAULT 0 NOT NULL,
	"after_trigger" uuid,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "trigger_event_kind" CHECK ("trigger_event"."kind" in ('fileUploaded', 'runSucceeded'))
);
--> statement-breakpoint
CREATE TABLE "trigger" (
	"id" uuid PRIMARY KEY NOT NULL,
	"pipeline_id" uuid NOT NULL,
	"type" text NOT NULL,
	"config" jsonb NOT NULL,
	"cooldown_seconds" integer DEFAULT 0 NOT NULL,
	"snapshot" jsonb NOT NULL,
	"machine_version" integer NOT NULL,
	"state" text NOT NULL,
	"cooling_until" timestamp (3) with time zone,
	"source" text,
	"due_at" timestamp (3) with time zone,
	"token_hash" text,
	"last_triggered_at" timestamp (3) with time zone,
	"last_run_id" uuid,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "trigger_state" CHECK ("trigger"."state" in ('armed', 'cooling', 'disabled')),
	CONSTRAINT "trigger_type" CHECK ("trigger"."type" in ('landing_zone_upload', 'cron', 'pipeline_success', 'webhook', 'file_pattern', 'cron_dependency'))
);
--> statement-breakpoint
ALTER TABLE "quality_result" DROP CONSTRAINT "quality_result_run_id_run_id_fk";
--> statement-breakpoint
ALTER TABLE "run_attempt" DROP CONSTRAINT "run_attempt_run_id_run_id_fk";
--> statement-breakpoint
ALTER TABLE "run_file" DROP CONSTRAINT "run_file_run_id_attempt_run_attempt_run_id_attempt_fk";
--> statement-breakpoint
ALTER TABLE "run_log" DROP CONSTRAINT "run_log_run_id_run_id_fk";
--> statement-breakpoint
ALTER TABLE "run" ADD COLUMN "trigger_id" uuid;--> statement-breakpoint
ALTER TABLE "run" ADD COLUMN "trigger_event" text;--> statement-breakpoint
ALTER TABLE "run" ADD COLUMN "schedule_id" uuid;--> statement-breakpoint
ALTER TABLE "run" ADD COLUMN "schedule_due" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "run" ADD COLUMN "chain_depth" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "run" ADD COLUMN "landing_file_id" uuid;--> statement-breakpoint
ALTER TABLE "retention_override" ADD CONSTRAINT "retention_override_pipeline_id_pipeline_id_fk" FOREIGN KEY ("pipeline_id") REFERENCES "public"."pipeline"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "schedule" ADD CONSTRAINT "schedule_pipeline_id_pipeline_id_fk" FOREIGN KEY ("pipeline_id") REFERENCES "public"."pipeline"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "trigger_dependency" ADD CONSTRAINT "trigger_dependency_trigger_id_trigger_id_fk" FOREIGN KEY ("trigger_id") REFERENCES "public"."trigger"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "trigger" ADD CONSTRAINT "trigger_pipeline_id_pipeline_id_fk" FOREIGN KEY ("pipeline_id") REFERENCES "public"."pipeline"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "audit_entry_created" ON "audit_entry" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "idempotency_key_created" ON "idempotency_key" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "schedule_of_pipeline" ON "schedule" USING btree ("pipeline_id");--> statement-breakpoint
CREATE INDEX "schedule_created" ON "schedule" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "schedule_due" ON "schedule" USING btree ("next_run_at","id") WHERE enabled and next_run_at is not null;--> statement-breakpoint
CREATE INDEX "schedule_new" ON "schedule" USING btree ("id") WHERE enabled and next_run_at is null;--> statement-breakpoint
CREATE INDEX "trigger_dependency_source" ON "trigger_dependency" USING btree ("source");--> statement-breakpoint
CREATE INDEX "trigger_of_pipeline" ON "trigger" USING btree ("pipeline_id","created_at","id");--> statement-breakpoint
CREATE INDEX "trigger_source" ON "trigger" USING btree ("source","id") WHERE state <> 'disabled';--> statement-breakpoint
CREATE INDEX "trigger_due" ON "trigger" USING btree ("due_at","id") WHERE due_at is not null and state <> 'disabled';--> statement-breakpoint
CREATE INDEX "trigger_cooling" ON "trigger" USING btree ("cooling_until") WHERE state = 'cooling';--> statement-breakpoint
CREATE UNIQUE INDEX "trigger_token" ON "trigger" USING btree ("token_hash") WHERE token_hash is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "run_of_trigger_event" ON "run" USING btree ("trigger_id","trigger_event") WHERE trigger_id is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "run_of_schedule" ON "run" USING btree ("schedule_id","schedule_due") WHERE schedule_id is not null;--> statement-breakpoint
CREATE INDEX "run_success" ON "run" USING btree ("pipeline_id","finished_at","id") WHERE status = 'success';--> statement-breakpoint
INSERT INTO "retention_config" DEFAULT VALUES;
--> statement-breakpoint
INSERT INTO "reaper_status" DEFAULT VALUES;
