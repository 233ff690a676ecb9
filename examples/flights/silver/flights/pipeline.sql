-- @description: Flights without duplicates, with the city and state of both airports
with flight as (
  select distinct date, origin, destination, delay, distance from {{ ref('bronze.flights') }}
)
select
  flight.date as departed_at,
  flight.origin,
  origin_airport.city as origin_city,
  nullif(origin_airport.state, 'NA') as origin_state,
  flight.destination,
  destination_airport.city as destination_city,
  nullif(destination_airport.state, 'NA') as destination_state,
  flight.distance::integer as distance_miles,
  flight.delay::integer as delay_minutes
from flight
left join {{ ref('bronze.airports') }} origin_airport on origin_airport.iata = flight.origin
left join {{ ref('bronze.airports') }} destination_airport on destination_airport.iata = flight.destination
