-- @severity: error
-- @description: The flights of all routes add up to the flights of silver.flights
select abs((select sum(flights) from {{ this }}) - (select count(*) from {{ ref('silver.flights') }}))
