LOCK TABLE "run", "audit_entry" IN ACCESS EXCLUSIVE MODE;
--> statement-breakpoint
DROP TRIGGER run_count_insert ON run;
--> statement-breakpoint
DROP TRIGGER run_count_update ON run;
--> statement-breakpoint
DROP TRIGGER run_count_delete ON run;
--> statement-breakpoint
DROP TRIGGER run_count_truncate ON run;
--> statement-breakpoint
DROP TRIGGER run_hour_insert ON run;
--> statement-breakpoint
DROP TRIGGER run_hour_update ON run;
--> statement-breakpoint
DROP TRIGGER run_hour_delete ON run;
--> statement-breakpoint
DROP TRIGGER run_hour_truncate ON run;
--> statement-breakpoint
DROP TRIGGER audit_entry_count_insert ON audit_entry;
--> statement-breakpoint
DROP TRIGGER audit_entry_count_delete ON audit_entry;
--> statement-breakpoint
DROP TRIGGER audit_entry_count_truncate ON audit_entry;
--> statement-breakpoint
DROP FUNCTION count_runs, count_rows, forget_count, count_run_hours, forget_run_hours, count_moved_run;
--> statement-breakpoint
DROP TABLE "row_count";
--> statement-breakpoint
DROP TABLE "run_hour";
--> statement-breakpoint
CREATE TABLE "run_total" (
	"change" bigint NOT NULL
);
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
INSERT INTO run_total SELECT count(*) FROM run;
--> statement-breakpoint
ALTER TABLE run_total SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000);
