ALTER TABLE "run" ADD COLUMN "traceparent" text;--> statement-breakpoint
ALTER TABLE "run" ADD COLUMN "tracestate" text;