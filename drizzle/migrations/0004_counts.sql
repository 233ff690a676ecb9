LOCK TABLE "run", "audit_entry" IN ACCESS EXCLUSIVE MODE;
--> statement-breakpoint
CREATE TABLE "row_count" (
	"of" text NOT NULL,
	"namespace" text,
	"layer" text,
	"status" text,
	"rows" bigint NOT NULL,
	"is_sum" boolean DEFAULT false NOT NULL
);
--> statement-breakpoint
DROP INDEX "run_created";--> statement-breakpoint
DROP INDEX "run_of_pipeline";--> statement-breakpoint
DROP INDEX "run_status";--> statement-breakpoint
CREATE INDEX "pipeline_named" ON "pipeline" USING btree ("name","namespace","layer");--> statement-breakpoint
CREATE INDEX "run_created" ON "run" USING btree ("created_at","id","status","namespace","layer");--> statement-breakpoint
CREATE INDEX "run_of_pipeline" ON "run" USING btree ("pipeline_id","created_at","id","status");--> statement-breakpoint
CREATE INDEX "run_status" ON "run" USING btree ("status","created_at","id","namespace","layer");
--> statement-breakpoint
CREATE FUNCTION count_runs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO row_count (of, namespace, layer, status, rows)
    SELECT 'run', namespace, layer, status, count(*) FROM run_now GROUP BY namespace, layer, status;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO row_count (of, namespace, layer, status, rows)
    SELECT 'run', namespace, layer, status, -count(*) FROM run_before GROUP BY namespace, layer, status;
  ELSE
    INSERT INTO row_count (of, namespace, layer, status, rows)
    SELECT 'run', namespace, layer, status, sum(rows) FROM (
      SELECT namespace, layer, status, 1 AS rows FROM run_now
      UNION ALL
      SELECT namespace, layer, status, -1 FROM run_before) moved
    GROUP BY namespace, layer, status HAVING sum(rows) <> 0;
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE FUNCTION count_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO row_count (of, rows) SELECT TG_TABLE_NAME, count(*) FROM rows_now HAVING count(*) > 0;
  ELSE
    INSERT INTO row_count (of, rows) SELECT TG_TABLE_NAME, -count(*) FROM rows_before HAVING count(*) > 0;
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE FUNCTION forget_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Whoever is folding ends first: its sum would be left otherwise.
  LOCK TABLE row_count IN SHARE ROW EXCLUSIVE MODE;
  DELETE FROM row_count WHERE of = TG_TABLE_NAME;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER run_count_insert AFTER INSERT ON run REFERENCING NEW TABLE AS run_now
  FOR EACH STATEMENT EXECUTE FUNCTION count_runs();
--> statement-breakpoint
CREATE TRIGGER run_count_update AFTER UPDATE ON run REFERENCING OLD TABLE AS run_before NEW TABLE AS run_now
  FOR EACH STATEMENT EXECUTE FUNCTION count_runs();
--> statement-breakpoint
CREATE TRIGGER run_count_delete AFTER DELETE ON run REFERENCING OLD TABLE AS run_before
  FOR EACH STATEMENT EXECUTE FUNCTION count_runs();
--> statement-breakpoint
CREATE TRIGGER run_count_truncate AFTER TRUNCATE ON run FOR EACH STATEMENT EXECUTE FUNCTION forget_count();
--> statement-breakpoint
CREATE TRIGGER audit_entry_count_insert AFTER INSERT ON audit_entry REFERENCING NEW TABLE AS rows_now
  FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
--> statement-breakpoint
CREATE TRIGGER audit_entry_count_delete AFTER DELETE ON audit_entry REFERENCING OLD TABLE AS rows_before
  FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
--> statement-breakpoint
CREATE TRIGGER audit_entry_count_truncate AFTER TRUNCATE ON audit_entry FOR EACH STATEMENT EXECUTE FUNCTION forget_count();
--> statement-breakpoint
INSERT INTO row_count (of, namespace, layer, status, rows, is_sum)
  SELECT 'run', namespace, layer, status, count(*), true FROM run GROUP BY namespace, layer, status;
--> statement-breakpoint
INSERT INTO row_count (of, rows, is_sum) SELECT 'audit_entry', count(*), true FROM audit_entry HAVING count(*) > 0;
--> statement-breakpoint
-- Lists pass over runs without reading them where pages are known to be visible to all; small changes are vacuumed soon.
ALTER TABLE run SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 5000);
--> statement-breakpoint
ALTER TABLE audit_entry SET (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 5000);
--> statement-breakpoint
ALTER TABLE row_count SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000);
