ALTER TABLE "trigger_event" ADD COLUMN "traceparent" text;--> statement-breakpoint
ALTER TABLE "trigger_event" ADD COLUMN "tracestate" text;--> statement-breakpoint
CREATE INDEX "outbox_intended" ON "outbox" USING btree ((payload ->> 'path')) WHERE kind = 'abandonedUpload' and tries = 0;