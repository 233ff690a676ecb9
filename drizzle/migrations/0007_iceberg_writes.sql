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
ALTER TABLE "namespace" ADD COLUMN "properties" jsonb DEFAULT '{}'::jsonb NOT NULL;