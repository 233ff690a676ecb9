-- @severity: warn
-- @description: No flight leaves more than two hours early; those that seem to have the date of another day
-- @tags: plausibility
-- @remediation: Report the rows to whoever delivers the file
select * from {{ this }} where delay_minutes < -120
