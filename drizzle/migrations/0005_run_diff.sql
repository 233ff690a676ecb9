CREATE TABLE "run_diff" (
	"run_id" uuid PRIMARY KEY NOT NULL,
	"diff" jsonb NOT NULL
);
