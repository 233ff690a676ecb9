-- @severity: error
-- @description: The routes add up to the flights they are made of
select abs((select sum(flights) from {{ this }}) - (select count(*) from {{ ref('silver.flights') }}))
