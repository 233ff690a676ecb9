-- @severity: warn
-- @description: No flight departs more than two hours early; an earlier departure has a wrong date
-- @tags: plausibility
-- @remediation: Report the rows to the supplier of the file
select * from {{ this }} where delay_minutes < -120
