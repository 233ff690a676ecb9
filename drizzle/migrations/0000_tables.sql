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
CREATE TABLE "licensed_user" (
	"user_id" text PRIMARY KEY NOT NULL,
	"seen_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "branch_entry" (
	"ref" text NOT NULL,
	"namespace" text NOT NULL,
	"layer" text NOT NULL,
	"name" text NOT NULL,
	"content_id" uuid,
	"base_content" uuid,
	CONSTRAINT "branch_entry_ref_namespace_layer_name_pk" PRIMARY KEY("ref","namespace","layer","name")
);
--> statement-breakpoint
CREATE TABLE "lake_commit" (
	"id" uuid PRIMARY KEY NOT NULL,
	"ref" text NOT NULL,
	"number" bigint,
	"base" bigint NOT NULL,
	"run_id" uuid,
	"author" text,
	"message" text NOT NULL,
	"tables" text[] DEFAULT '{}' NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "lake_content" (
	"id" uuid PRIMARY KEY NOT NULL,
	"kind" text DEFAULT 'table' NOT NULL,
	"table_uuid" uuid NOT NULL,
	"metadata_location" text NOT NULL,
	"snapshot_id" text,
	"columns" jsonb NOT NULL,
	"row_count" bigint NOT NULL,
	"size_bytes" bigint NOT NULL,
	"operation" text,
	"rows_added" bigint,
	"rows_removed" bigint,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "lake_ref" (
	"name" text PRIMARY KEY NOT NULL,
	"state" text DEFAULT 'open' NOT NULL,
	"kind" text DEFAULT 'run' NOT NULL,
	"number" bigint,
	"base" bigint,
	"head" uuid,
	"run_id" uuid,
	"attempt" integer,
	"parent" text,
	"description" text DEFAULT '' NOT NULL,
	"created_by" text,
	"authors" text[] DEFAULT '{}'::text[] NOT NULL,
	"expires_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	"updated_at" timestamp (3) with time zone,
	"closed_at" timestamp (3) with time zone,
	"kept_until" timestamp (3) with time zone,
	CONSTRAINT "lake_ref_state" CHECK ("lake_ref"."state" in ('open', 'merged', 'deleted')),
	CONSTRAINT "lake_ref_kind" CHECK ("lake_ref"."kind" in ('main', 'run', 'user', 'tag'))
);
--> statement-breakpoint
CREATE TABLE "lake_rename" (
	"namespace" text NOT NULL,
	"layer" text NOT NULL,
	"name" text NOT NULL,
	"to_namespace" text NOT NULL,
	"to_layer" text NOT NULL,
	"to_name" text NOT NULL,
	CONSTRAINT "lake_rename_key" PRIMARY KEY("namespace","layer","name","to_namespace","to_layer","to_name")
);
--> statement-breakpoint
CREATE TABLE "lake_upload" (
	"key" text PRIMARY KEY NOT NULL,
	"branch" text,
	"size" bigint NOT NULL,
	"checksum" text NOT NULL,
	"removed_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "main_entry" (
	"namespace" text NOT NULL,
	"layer" text NOT NULL,
	"name" text NOT NULL,
	"content_id" uuid NOT NULL,
	"from_commit" bigint NOT NULL,
	"to_commit" bigint,
	CONSTRAINT "main_entry_namespace_layer_name_from_commit_pk" PRIMARY KEY("namespace","layer","name","from_commit")
);
--> statement-breakpoint
CREATE TABLE "landing_file" (
	"id" uuid PRIMARY KEY NOT NULL,
	"zone_id" uuid NOT NULL,
	"seq" bigserial NOT NULL,
	"filename" text NOT NULL,
	"original_name" text NOT NULL,
	"path" text NOT NULL,
	"version_id" text NOT NULL,
	"size_bytes" bigint NOT NULL,
	"content_type" text NOT NULL,
	"uploaded_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	"archived_by_run" uuid,
	"archived_at" timestamp (3) with time zone,
	"quarantined_at" timestamp (3) with time zone,
	CONSTRAINT "landing_file_name" UNIQUE("zone_id","filename")
);
--> statement-breakpoint
CREATE TABLE "landing_zone" (
	"id" uuid PRIMARY KEY NOT NULL,
	"namespace" text NOT NULL,
	"name" text NOT NULL,
	"description" text DEFAULT '' NOT NULL,
	"owner" text,
	"expected_schema" text,
	"processed_max_age_days" integer DEFAULT 30 NOT NULL,
	"auto_purge" boolean DEFAULT false NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "landing_zone_name" UNIQUE("namespace","name")
);
--> statement-breakpoint
CREATE TABLE "namespace" (
	"name" text PRIMARY KEY NOT NULL,
	"id" uuid DEFAULT gen_random_uuid() NOT NULL,
	"owner" text,
	"description" text DEFAULT '' NOT NULL,
	"properties" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"protection" jsonb DEFAULT '{"review":"none"}'::jsonb NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "namespace_id" UNIQUE("id")
);
--> statement-breakpoint
CREATE TABLE "pipeline_version" (
	"id" uuid PRIMARY KEY NOT NULL,
	"pipeline_id" uuid NOT NULL,
	"version_number" integer NOT NULL,
	"message" text NOT NULL,
	"pipeline_type" text NOT NULL,
	"published_versions" jsonb NOT NULL,
	"landing_zones" jsonb NOT NULL,
	"placement" jsonb,
	"tags" text[] DEFAULT '{}'::text[] NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "pipeline_version_number" UNIQUE("pipeline_id","version_number")
);
--> statement-breakpoint
CREATE TABLE "pipeline" (
	"id" uuid PRIMARY KEY NOT NULL,
	"namespace" text NOT NULL,
	"layer" text NOT NULL,
	"name" text NOT NULL,
	"type" text NOT NULL,
	"owner" text,
	"handed_by" text[] DEFAULT '{}'::text[] NOT NULL,
	"handed_before" text[] DEFAULT '{}'::text[] NOT NULL,
	"vouched_version" integer,
	"description" text DEFAULT '' NOT NULL,
	"draft_snapshot" jsonb NOT NULL,
	"draft_machine_version" integer NOT NULL,
	"draft_dirty" boolean NOT NULL,
	"draft_revision" bigint DEFAULT 0 NOT NULL,
	"draft_authors" text[] DEFAULT '{}'::text[] NOT NULL,
	"published_version" integer,
	"published_at" timestamp (3) with time zone,
	"review" text,
	"tags" text[] DEFAULT '{}'::text[] NOT NULL,
	"max_versions" integer DEFAULT 50 NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	"deleted_at" timestamp (3) with time zone,
	CONSTRAINT "pipeline_layer" CHECK ("pipeline"."layer" in ('bronze', 'silver', 'gold')),
	CONSTRAINT "pipeline_type" CHECK ("pipeline"."type" in ('sql', 'python'))
);
--> statement-breakpoint
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
	"failures" jsonb DEFAULT '[]'::jsonb NOT NULL,
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
CREATE TABLE "quality_result" (
	"run_id" uuid NOT NULL,
	"pipeline_id" uuid NOT NULL,
	"name" text NOT NULL,
	"severity" text NOT NULL,
	"status" text NOT NULL,
	"value" bigint NOT NULL,
	"duration_ms" bigint NOT NULL,
	"error" text,
	"samples" text[] DEFAULT '{}'::text[] NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "quality_result_run_id_name_pk" PRIMARY KEY("run_id","name")
);
--> statement-breakpoint
CREATE TABLE "run_attempt" (
	"run_id" uuid NOT NULL,
	"attempt" integer NOT NULL,
	"pipeline_id" uuid NOT NULL,
	"branch" text NOT NULL,
	"run_branch" text DEFAULT 'main' NOT NULL,
	"base_commit" bigint NOT NULL,
	"landing_watermark" bigint NOT NULL,
	"runner_url" text NOT NULL,
	"runner_boot" text,
	"state" text DEFAULT 'open' NOT NULL,
	"outcome" text,
	"opened_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	"closed_at" timestamp (3) with time zone,
	CONSTRAINT "run_attempt_run_id_attempt_pk" PRIMARY KEY("run_id","attempt"),
	CONSTRAINT "run_attempt_state" CHECK ("run_attempt"."state" in ('open', 'closed'))
);
--> statement-breakpoint
CREATE TABLE "run_diff" (
	"run_id" uuid PRIMARY KEY NOT NULL,
	"diff" jsonb NOT NULL
);
--> statement-breakpoint
CREATE TABLE "run_file" (
	"run_id" uuid NOT NULL,
	"attempt" integer NOT NULL,
	"landing_file_id" uuid NOT NULL,
	"zone_id" uuid NOT NULL,
	"may_archive" boolean DEFAULT true NOT NULL,
	CONSTRAINT "run_file_run_id_attempt_landing_file_id_pk" PRIMARY KEY("run_id","attempt","landing_file_id")
);
--> statement-breakpoint
CREATE TABLE "run_log" (
	"run_id" uuid NOT NULL,
	"seq" bigint NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"level" text NOT NULL,
	"message" text NOT NULL,
	CONSTRAINT "run_log_run_id_seq_pk" PRIMARY KEY("run_id","seq")
);
--> statement-breakpoint
CREATE TABLE "run_review" (
	"run_id" uuid PRIMARY KEY NOT NULL,
	"attempt" integer NOT NULL,
	"entered_at" timestamp (3) with time zone NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"timeout_hours" integer NOT NULL,
	"four_eyes" boolean NOT NULL,
	"reviewed_ms" bigint DEFAULT 0 NOT NULL,
	"tested_commit" uuid NOT NULL,
	"rows_written" bigint NOT NULL,
	"landing_file_ids" uuid[] NOT NULL,
	"archives_landing_zones" boolean NOT NULL,
	"input_tables" text[] DEFAULT '{}'::text[] NOT NULL,
	"stale_inputs" jsonb
);
--> statement-breakpoint
CREATE TABLE "run" (
	"id" uuid PRIMARY KEY NOT NULL,
	"pipeline_id" uuid NOT NULL,
	"namespace" text NOT NULL,
	"layer" text NOT NULL,
	"pipeline" text NOT NULL,
	"pipeline_type" text NOT NULL,
	"trigger" text NOT NULL,
	"branch" text DEFAULT 'main' NOT NULL,
	"draft" boolean DEFAULT false NOT NULL,
	"version_number" integer,
	"pins" jsonb NOT NULL,
	"landing_zones" jsonb NOT NULL,
	"placement" jsonb,
	"snapshot" jsonb NOT NULL,
	"machine_version" integer NOT NULL,
	"status" text NOT NULL,
	"phase" text,
	"attempt" integer DEFAULT 0 NOT NULL,
	"waiting" boolean DEFAULT true NOT NULL,
	"waiting_reason" text,
	"not_before" timestamp (3) with time zone,
	"follower" text,
	"started_at" timestamp (3) with time zone,
	"finished_at" timestamp (3) with time zone,
	"duration_ms" bigint,
	"rows_written" bigint,
	"error" text,
	"base_commit" bigint,
	"merged_commit" bigint,
	"trigger_id" uuid,
	"trigger_event" text,
	"schedule_id" uuid,
	"schedule_due" timestamp (3) with time zone,
	"chain_depth" integer DEFAULT 0 NOT NULL,
	"landing_file_id" uuid,
	"requested_by" text,
	"traceparent" text,
	"tracestate" text,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "run_status_known" CHECK ("run"."status" in ('pending', 'running', 'success', 'failed', 'cancelled'))
);
--> statement-breakpoint
CREATE TABLE "audit_entry" (
	"id" uuid PRIMARY KEY NOT NULL,
	"user_id" text NOT NULL,
	"action" text NOT NULL,
	"resource" text NOT NULL,
	"detail" text DEFAULT '' NOT NULL,
	"ip" text NOT NULL,
	"peer" text DEFAULT '' NOT NULL,
	"status" integer DEFAULT 0 NOT NULL,
	"key" text DEFAULT '' NOT NULL,
	"count" integer DEFAULT 1 NOT NULL,
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
CREATE TABLE "outbox" (
	"id" bigserial PRIMARY KEY NOT NULL,
	"kind" text NOT NULL,
	"payload" jsonb NOT NULL,
	"due_at" timestamp (3) with time zone NOT NULL,
	"tries" integer DEFAULT 0 NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "replica" (
	"name" text PRIMARY KEY NOT NULL,
	"alive_until" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "run_total" (
	"change" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "secret" (
	"name" text PRIMARY KEY NOT NULL,
	"value" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "transition" (
	"id" bigserial PRIMARY KEY NOT NULL,
	"machine" text NOT NULL,
	"entity_id" uuid NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"event" text NOT NULL,
	"from" text NOT NULL,
	"to" text NOT NULL,
	"effects" jsonb NOT NULL,
	"cause" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "table_metadata" (
	"namespace" text NOT NULL,
	"layer" text NOT NULL,
	"name" text NOT NULL,
	"description" text DEFAULT '' NOT NULL,
	"owner" text,
	"column_descriptions" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "table_metadata_namespace_layer_name_pk" PRIMARY KEY("namespace","layer","name")
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
	"traceparent" text,
	"tracestate" text,
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
ALTER TABLE "branch_entry" ADD CONSTRAINT "branch_entry_ref_lake_ref_name_fk" FOREIGN KEY ("ref") REFERENCES "public"."lake_ref"("name") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "branch_entry" ADD CONSTRAINT "branch_entry_content_id_lake_content_id_fk" FOREIGN KEY ("content_id") REFERENCES "public"."lake_content"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "main_entry" ADD CONSTRAINT "main_entry_content_id_lake_content_id_fk" FOREIGN KEY ("content_id") REFERENCES "public"."lake_content"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "landing_file" ADD CONSTRAINT "landing_file_zone_id_landing_zone_id_fk" FOREIGN KEY ("zone_id") REFERENCES "public"."landing_zone"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pipeline_version" ADD CONSTRAINT "pipeline_version_pipeline_id_pipeline_id_fk" FOREIGN KEY ("pipeline_id") REFERENCES "public"."pipeline"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "retention_override" ADD CONSTRAINT "retention_override_pipeline_id_pipeline_id_fk" FOREIGN KEY ("pipeline_id") REFERENCES "public"."pipeline"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "schedule" ADD CONSTRAINT "schedule_pipeline_id_pipeline_id_fk" FOREIGN KEY ("pipeline_id") REFERENCES "public"."pipeline"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "trigger_dependency" ADD CONSTRAINT "trigger_dependency_trigger_id_trigger_id_fk" FOREIGN KEY ("trigger_id") REFERENCES "public"."trigger"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "trigger" ADD CONSTRAINT "trigger_pipeline_id_pipeline_id_fk" FOREIGN KEY ("pipeline_id") REFERENCES "public"."pipeline"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "access_grant_grantee" ON "access_grant" USING btree ("grantee_id","resource_type","resource_id");--> statement-breakpoint
CREATE INDEX "branch_entry_content" ON "branch_entry" USING btree ("content_id");--> statement-breakpoint
CREATE INDEX "branch_entry_base_content" ON "branch_entry" USING btree ("base_content");--> statement-breakpoint
CREATE UNIQUE INDEX "lake_commit_number" ON "lake_commit" USING btree ("number") WHERE number is not null;--> statement-breakpoint
CREATE INDEX "lake_commit_ref" ON "lake_commit" USING btree ("ref");--> statement-breakpoint
CREATE INDEX "lake_ref_closed" ON "lake_ref" USING btree ("closed_at") WHERE closed_at is not null;--> statement-breakpoint
CREATE INDEX "lake_ref_open" ON "lake_ref" USING btree ("created_at") WHERE state = 'open' and name <> 'main';--> statement-breakpoint
CREATE INDEX "lake_ref_listed" ON "lake_ref" USING btree ("kind","name") WHERE kind in ('user', 'tag');--> statement-breakpoint
CREATE INDEX "lake_ref_kept" ON "lake_ref" USING btree ("kept_until") WHERE kept_until is not null;--> statement-breakpoint
CREATE INDEX "lake_ref_parent" ON "lake_ref" USING btree ("parent") WHERE parent is not null;--> statement-breakpoint
CREATE INDEX "lake_upload_created" ON "lake_upload" USING btree ("created_at");--> statement-breakpoint
CREATE UNIQUE INDEX "main_entry_live" ON "main_entry" USING btree ("namespace","layer","name") WHERE to_commit is null;--> statement-breakpoint
CREATE INDEX "main_entry_content" ON "main_entry" USING btree ("content_id");--> statement-breakpoint
CREATE INDEX "main_entry_changes" ON "main_entry" USING btree ("from_commit");--> statement-breakpoint
CREATE INDEX "main_entry_ended" ON "main_entry" USING btree ("to_commit") WHERE to_commit is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "landing_file_seq" ON "landing_file" USING btree ("seq");--> statement-breakpoint
CREATE INDEX "landing_file_archived" ON "landing_file" USING btree ("archived_at","id") WHERE archived_by_run is not null;--> statement-breakpoint
CREATE INDEX "landing_file_in_place" ON "landing_file" USING btree ("archived_by_run") WHERE archived_by_run is not null and position('/_processed/' in path) = 0;--> statement-breakpoint
CREATE INDEX "landing_file_active" ON "landing_file" USING btree ("zone_id","seq") WHERE archived_by_run is null;--> statement-breakpoint
CREATE INDEX "landing_zone_owner" ON "landing_zone" USING btree ("owner") WHERE owner is not null;--> statement-breakpoint
CREATE INDEX "namespace_owner" ON "namespace" USING btree ("owner") WHERE owner is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "pipeline_live_name" ON "pipeline" USING btree ("namespace","layer","name") WHERE deleted_at is null;--> statement-breakpoint
CREATE INDEX "pipeline_owner" ON "pipeline" USING btree ("owner") WHERE owner is not null;--> statement-breakpoint
CREATE INDEX "pipeline_deleted" ON "pipeline" USING btree ("deleted_at") WHERE deleted_at is not null;--> statement-breakpoint
CREATE INDEX "pipeline_created" ON "pipeline" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "pipeline_named" ON "pipeline" USING btree ("name","namespace","layer");--> statement-breakpoint
CREATE INDEX "quality_result_of_test" ON "quality_result" USING btree ("pipeline_id","name","created_at");--> statement-breakpoint
CREATE INDEX "quality_result_failed" ON "quality_result" USING btree ("pipeline_id") WHERE status = 'failed';--> statement-breakpoint
CREATE UNIQUE INDEX "run_attempt_one_open" ON "run_attempt" USING btree ("pipeline_id","run_branch") WHERE state = 'open';--> statement-breakpoint
CREATE INDEX "run_file_of_zone" ON "run_file" USING btree ("zone_id","run_id","landing_file_id");--> statement-breakpoint
CREATE UNIQUE INDEX "run_of_trigger_event" ON "run" USING btree ("trigger_id","trigger_event") WHERE trigger_id is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "run_of_schedule" ON "run" USING btree ("schedule_id","schedule_due") WHERE schedule_id is not null;--> statement-breakpoint
CREATE INDEX "run_success" ON "run" USING btree ("pipeline_id","finished_at","id") WHERE status = 'success' and branch = 'main';--> statement-breakpoint
CREATE INDEX "run_queue" ON "run" USING btree ("pipeline_id","branch","status" DESC NULLS LAST,"created_at","id") WHERE waiting;--> statement-breakpoint
CREATE INDEX "run_active" ON "run" USING btree ("pipeline_id") WHERE status in ('pending', 'running');--> statement-breakpoint
CREATE UNIQUE INDEX "run_one_running" ON "run" USING btree ("pipeline_id","branch") WHERE status = 'running' and phase not in ('review', 'waiting');--> statement-breakpoint
CREATE INDEX "run_in_review" ON "run" USING btree ("id") WHERE status = 'running' and phase = 'review';--> statement-breakpoint
CREATE INDEX "run_on_branch" ON "run" USING btree ("branch","created_at","id") WHERE branch <> 'main';--> statement-breakpoint
CREATE INDEX "run_of_branch" ON "run" USING btree ("branch") WHERE status in ('pending', 'running') and branch <> 'main';--> statement-breakpoint
CREATE INDEX "run_followed" ON "run" USING btree ("follower") WHERE follower is not null;--> statement-breakpoint
CREATE INDEX "run_created" ON "run" USING btree ("created_at","id","status","namespace","layer");--> statement-breakpoint
CREATE INDEX "run_of_pipeline" ON "run" USING btree ("pipeline_id","created_at","id","status");--> statement-breakpoint
CREATE INDEX "run_status" ON "run" USING btree ("status","created_at","id","namespace","layer");--> statement-breakpoint
CREATE INDEX "run_duration" ON "run" USING btree ("duration_ms","id") WHERE duration_ms is not null;--> statement-breakpoint
CREATE INDEX "run_finished" ON "run" USING btree ("finished_at","id") WHERE finished_at is not null;--> statement-breakpoint
CREATE INDEX "audit_entry_created" ON "audit_entry" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "idempotency_key_created" ON "idempotency_key" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "outbox_due" ON "outbox" USING btree ("due_at","id");--> statement-breakpoint
CREATE INDEX "outbox_intended" ON "outbox" USING btree ((payload ->> 'path')) WHERE kind = 'abandonedUpload' and tries = 0;--> statement-breakpoint
CREATE INDEX "transition_of" ON "transition" USING btree ("machine","entity_id","id");--> statement-breakpoint
CREATE INDEX "schedule_of_pipeline" ON "schedule" USING btree ("pipeline_id");--> statement-breakpoint
CREATE INDEX "schedule_created" ON "schedule" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "schedule_due" ON "schedule" USING btree ("next_run_at","id") WHERE enabled and next_run_at is not null;--> statement-breakpoint
CREATE INDEX "schedule_new" ON "schedule" USING btree ("id") WHERE enabled and next_run_at is null;--> statement-breakpoint
CREATE INDEX "trigger_dependency_source" ON "trigger_dependency" USING btree ("source");--> statement-breakpoint
CREATE INDEX "trigger_of_pipeline" ON "trigger" USING btree ("pipeline_id","created_at","id");--> statement-breakpoint
CREATE INDEX "trigger_source" ON "trigger" USING btree ("source","id") WHERE state <> 'disabled';--> statement-breakpoint
CREATE INDEX "trigger_due" ON "trigger" USING btree ("due_at","id") WHERE due_at is not null and state <> 'disabled';--> statement-breakpoint
CREATE INDEX "trigger_cooling" ON "trigger" USING btree ("cooling_until") WHERE state = 'cooling';--> statement-breakpoint
CREATE UNIQUE INDEX "trigger_token" ON "trigger" USING btree ("token_hash") WHERE token_hash is not null;
--> statement-breakpoint
-- Written by hand from here on: rows that always exist, the triggers that count runs, and settings of tables.
INSERT INTO "lake_ref" ("name", "state", "number", "kind") VALUES ('main', 'open', 0, 'main');
--> statement-breakpoint
INSERT INTO "namespace" ("name", "description") VALUES ('default', 'The namespace that always exists');
--> statement-breakpoint
INSERT INTO "secret" ("name", "value") VALUES ('attempt_token', encode(sha256((gen_random_uuid()::text || gen_random_uuid()::text)::bytea), 'hex'));
--> statement-breakpoint
INSERT INTO "retention_config" DEFAULT VALUES;
--> statement-breakpoint
INSERT INTO "reaper_status" DEFAULT VALUES;
--> statement-breakpoint
CREATE FUNCTION count_new_runs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO run_total SELECT count(*) FROM new_runs HAVING count(*) > 0;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE FUNCTION count_deleted_runs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO run_total SELECT -count(*) FROM deleted_runs HAVING count(*) > 0;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE FUNCTION clear_run_total() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  TRUNCATE run_total;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER run_total_insert AFTER INSERT ON run REFERENCING NEW TABLE AS new_runs
  FOR EACH STATEMENT EXECUTE FUNCTION count_new_runs();
--> statement-breakpoint
CREATE TRIGGER run_total_delete AFTER DELETE ON run REFERENCING OLD TABLE AS deleted_runs
  FOR EACH STATEMENT EXECUTE FUNCTION count_deleted_runs();
--> statement-breakpoint
CREATE TRIGGER run_total_truncate AFTER TRUNCATE ON run FOR EACH STATEMENT EXECUTE FUNCTION clear_run_total();
--> statement-breakpoint
ALTER TABLE run_total SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000);
--> statement-breakpoint
INSERT INTO "run_total" ("change") VALUES (0);
--> statement-breakpoint
-- Lists pass over runs without reading them where pages are known to be visible to all; small changes are vacuumed soon.
ALTER TABLE run SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 5000);
--> statement-breakpoint
ALTER TABLE audit_entry SET (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 5000);
