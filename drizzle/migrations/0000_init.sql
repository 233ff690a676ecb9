CREATE TABLE "branch_entry" (
	"ref" text NOT NULL,
	"namespace" text NOT NULL,
	"layer" text NOT NULL,
	"name" text NOT NULL,
	"content_id" uuid NOT NULL,
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
	"message" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "lake_content" (
	"id" uuid PRIMARY KEY NOT NULL,
	"table_uuid" uuid NOT NULL,
	"metadata_location" text NOT NULL,
	"snapshot_id" text,
	"columns" jsonb NOT NULL,
	"row_count" bigint NOT NULL,
	"size_bytes" bigint NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "lake_ref" (
	"name" text PRIMARY KEY NOT NULL,
	"state" text DEFAULT 'open' NOT NULL,
	"number" bigint,
	"base" bigint,
	"head" uuid,
	"run_id" uuid,
	"attempt" integer,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	"closed_at" timestamp (3) with time zone,
	CONSTRAINT "lake_ref_state" CHECK ("lake_ref"."state" in ('open', 'merged', 'deleted'))
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
	"description" text DEFAULT '' NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL
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
	"description" text DEFAULT '' NOT NULL,
	"draft_snapshot" jsonb NOT NULL,
	"draft_machine_version" integer NOT NULL,
	"draft_dirty" boolean NOT NULL,
	"draft_revision" bigint DEFAULT 0 NOT NULL,
	"published_version" integer,
	"published_at" timestamp (3) with time zone,
	"max_versions" integer DEFAULT 50 NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	"deleted_at" timestamp (3) with time zone,
	CONSTRAINT "pipeline_layer" CHECK ("pipeline"."layer" in ('bronze', 'silver', 'gold')),
	CONSTRAINT "pipeline_type" CHECK ("pipeline"."type" in ('sql', 'python'))
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
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "quality_result_run_id_name_pk" PRIMARY KEY("run_id","name")
);
--> statement-breakpoint
CREATE TABLE "run_attempt" (
	"run_id" uuid NOT NULL,
	"attempt" integer NOT NULL,
	"pipeline_id" uuid NOT NULL,
	"branch" text NOT NULL,
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
CREATE TABLE "run_file" (
	"run_id" uuid NOT NULL,
	"attempt" integer NOT NULL,
	"landing_file_id" uuid NOT NULL,
	"zone_id" uuid NOT NULL,
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
CREATE TABLE "run" (
	"id" uuid PRIMARY KEY NOT NULL,
	"pipeline_id" uuid NOT NULL,
	"namespace" text NOT NULL,
	"layer" text NOT NULL,
	"pipeline" text NOT NULL,
	"pipeline_type" text NOT NULL,
	"trigger" text NOT NULL,
	"version_number" integer,
	"pins" jsonb NOT NULL,
	"landing_zones" jsonb NOT NULL,
	"snapshot" jsonb NOT NULL,
	"machine_version" integer NOT NULL,
	"status" text NOT NULL,
	"phase" text,
	"attempt" integer DEFAULT 0 NOT NULL,
	"waiting" boolean DEFAULT true NOT NULL,
	"not_before" timestamp (3) with time zone,
	"follower" text,
	"started_at" timestamp (3) with time zone,
	"finished_at" timestamp (3) with time zone,
	"duration_ms" bigint,
	"rows_written" bigint,
	"error" text,
	"base_commit" bigint,
	"merged_commit" bigint,
	"created_at" timestamp (3) with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "run_status_known" CHECK ("run"."status" in ('pending', 'running', 'success', 'failed', 'cancelled'))
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
ALTER TABLE "branch_entry" ADD CONSTRAINT "branch_entry_ref_lake_ref_name_fk" FOREIGN KEY ("ref") REFERENCES "public"."lake_ref"("name") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "branch_entry" ADD CONSTRAINT "branch_entry_content_id_lake_content_id_fk" FOREIGN KEY ("content_id") REFERENCES "public"."lake_content"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "main_entry" ADD CONSTRAINT "main_entry_content_id_lake_content_id_fk" FOREIGN KEY ("content_id") REFERENCES "public"."lake_content"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "landing_file" ADD CONSTRAINT "landing_file_zone_id_landing_zone_id_fk" FOREIGN KEY ("zone_id") REFERENCES "public"."landing_zone"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pipeline_version" ADD CONSTRAINT "pipeline_version_pipeline_id_pipeline_id_fk" FOREIGN KEY ("pipeline_id") REFERENCES "public"."pipeline"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "quality_result" ADD CONSTRAINT "quality_result_run_id_run_id_fk" FOREIGN KEY ("run_id") REFERENCES "public"."run"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "run_attempt" ADD CONSTRAINT "run_attempt_run_id_run_id_fk" FOREIGN KEY ("run_id") REFERENCES "public"."run"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "run_file" ADD CONSTRAINT "run_file_run_id_attempt_run_attempt_run_id_attempt_fk" FOREIGN KEY ("run_id","attempt") REFERENCES "public"."run_attempt"("run_id","attempt") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "run_log" ADD CONSTRAINT "run_log_run_id_run_id_fk" FOREIGN KEY ("run_id") REFERENCES "public"."run"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "run" ADD CONSTRAINT "run_pipeline_id_pipeline_id_fk" FOREIGN KEY ("pipeline_id") REFERENCES "public"."pipeline"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "lake_commit_number" ON "lake_commit" USING btree ("number") WHERE number is not null;--> statement-breakpoint
CREATE INDEX "lake_commit_ref" ON "lake_commit" USING btree ("ref");--> statement-breakpoint
CREATE INDEX "lake_ref_open" ON "lake_ref" USING btree ("created_at") WHERE state = 'open' and name <> 'main';--> statement-breakpoint
CREATE UNIQUE INDEX "main_entry_live" ON "main_entry" USING btree ("namespace","layer","name") WHERE to_commit is null;--> statement-breakpoint
CREATE INDEX "main_entry_changes" ON "main_entry" USING btree ("from_commit");--> statement-breakpoint
CREATE INDEX "main_entry_ended" ON "main_entry" USING btree ("to_commit") WHERE to_commit is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "landing_file_seq" ON "landing_file" USING btree ("seq");--> statement-breakpoint
CREATE INDEX "landing_file_active" ON "landing_file" USING btree ("zone_id","seq") WHERE archived_by_run is null;--> statement-breakpoint
CREATE UNIQUE INDEX "pipeline_live_name" ON "pipeline" USING btree ("namespace","layer","name") WHERE deleted_at is null;--> statement-breakpoint
CREATE INDEX "pipeline_created" ON "pipeline" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "quality_result_of_test" ON "quality_result" USING btree ("pipeline_id","name","created_at");--> statement-breakpoint
CREATE UNIQUE INDEX "run_attempt_one_open" ON "run_attempt" USING btree ("pipeline_id") WHERE state = 'open';--> statement-breakpoint
CREATE INDEX "run_queue" ON "run" USING btree ("pipeline_id","created_at","id") WHERE waiting;--> statement-breakpoint
CREATE INDEX "run_active" ON "run" USING btree ("pipeline_id") WHERE status in ('pending', 'running');--> statement-breakpoint
CREATE UNIQUE INDEX "run_one_running" ON "run" USING btree ("pipeline_id") WHERE status = 'running';--> statement-breakpoint
CREATE INDEX "run_followed" ON "run" USING btree ("follower") WHERE follower is not null;--> statement-breakpoint
CREATE INDEX "run_created" ON "run" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "run_of_pipeline" ON "run" USING btree ("pipeline_id","created_at","id");--> statement-breakpoint
CREATE INDEX "run_status" ON "run" USING btree ("status","created_at","id");--> statement-breakpoint
CREATE INDEX "outbox_due" ON "outbox" USING btree ("due_at","id");--> statement-breakpoint
CREATE INDEX "transition_of" ON "transition" USING btree ("machine","entity_id","id");--> statement-breakpoint
INSERT INTO "lake_ref" ("name", "state", "number") VALUES ('main', 'open', 0);
--> statement-breakpoint
INSERT INTO "namespace" ("name", "description") VALUES ('default', 'The namespace that always exists');
--> statement-breakpoint
INSERT INTO "secret" ("name", "value") VALUES ('attempt_token', encode(sha256((gen_random_uuid()::text || gen_random_uuid()::text)::bytea), 'hex'));
