-- @description: Delays of flights by route and hour of departure
select
  origin,
  destination,
  extract(hour from departed_at)::integer as hour,
  count(*) as flights,
  round(avg(delay_minutes), 1) as mean_delay,
  round(quantile_cont(delay_minutes, 0.95), 1) as p95_delay,
  round(avg((delay_minutes > 15)::integer), 3) as share_over_15
from {{ ref('silver.flights') }}
group by all
