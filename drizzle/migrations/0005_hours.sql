LOCK TABLE "run" IN SHARE ROW EXCLUSIVE MODE;
--> statement-breakpoint
CREATE TABLE "run_hour" (
	"hour" timestamp (3) with time zone NOT NULL,
	"rows" bigint NOT NULL,
	"is_sum" boolean DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE FUNCTION count_run_hours() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO run_hour (hour, rows)
    SELECT date_bin('1 hour', created_at, '2000-01-01 00:00+00'), count(*) FROM run_now GROUP BY 1;
  ELSE
    INSERT INTO run_hour (hour, rows)
    SELECT date_bin('1 hour', created_at, '2000-01-01 00:00+00'), -count(*) FROM run_before GROUP BY 1;
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE FUNCTION forget_run_hours() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Whoever is folding ends first: its sum would be left otherwise.
  LOCK TABLE run_hour IN SHARE ROW EXCLUSIVE MODE;
  DELETE FROM run_hour;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER run_hour_insert AFTER INSERT ON run REFERENCING NEW TABLE AS run_now
  FOR EACH STATEMENT EXECUTE FUNCTION count_run_hours();
--> statement-breakpoint
CREATE TRIGGER run_hour_delete AFTER DELETE ON run REFERENCING OLD TABLE AS run_before
  FOR EACH STATEMENT EXECUTE FUNCTION count_run_hours();
--> statement-breakpoint
CREATE TRIGGER run_hour_truncate AFTER TRUNCATE ON run FOR EACH STATEMENT EXECUTE FUNCTION forget_run_hours();
--> statement-breakpoint
-- The service never changes when a run was requested; whoever does all the same is counted.
CREATE FUNCTION count_moved_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO run_hour (hour, rows) VALUES
    (date_bin('1 hour', OLD.created_at, '2000-01-01 00:00+00'), -1),
    (date_bin('1 hour', NEW.created_at, '2000-01-01 00:00+00'), 1);
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER run_hour_update AFTER UPDATE OF created_at ON run
  FOR EACH ROW WHEN (OLD.created_at IS DISTINCT FROM NEW.created_at) EXECUTE FUNCTION count_moved_run();
--> statement-breakpoint
INSERT INTO run_hour (hour, rows, is_sum)
  SELECT date_bin('1 hour', created_at, '2000-01-01 00:00+00'), count(*), true FROM run GROUP BY 1;
--> statement-breakpoint
ALTER TABLE run_hour SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000);
