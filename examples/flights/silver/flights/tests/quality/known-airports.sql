-- @severity: error
-- @description: Both airports of every flight are in bronze.airports
-- @tags: completeness, airports
-- @remediation: Upload a newer airports.csv and run bronze.airports
select * from {{ this }} where origin_city is null or destination_city is null
