// The data and code of the tour. The file has one order that the gate must catch.

export const ZONE = 'orders'
export const FILE_NAME = 'orders.csv'
export const FILE = `order_id,customer,amount,ordered_on
1,Ada,120.50,2026-03-01
2,Grace,80.00,2026-03-01
3,Ada,35.00,2026-03-02
4,Linus,-42.25,2026-03-02
5,Grace,19.90,2026-03-03
`

export interface SamplePipeline {
  layer: 'bronze' | 'gold'
  name: string
  source: string
  test?: { name: string; sql: string; severity: 'error'; description: string }
}

export const BRONZE: SamplePipeline = {
  layer: 'bronze',
  name: 'orders',
  source: `select *\nfrom read_csv('{{ landing_zone("${ZONE}") }}')\n`,
}

const REVENUE = `select customer, sum(amount) as revenue, count(*) as orders
from {{ ref('bronze.orders') }}
`

export const GOLD: SamplePipeline = {
  layer: 'gold',
  name: 'revenue',
  source: `${REVENUE}group by customer\n`,
  test: {
    name: 'no-negative-revenue',
    sql: 'select * from {{ this }} where revenue < 0',
    severity: 'error',
    description: 'No customer has a negative revenue',
  },
}

export const FIXED: SamplePipeline = { ...GOLD, source: `${REVENUE}where amount > 0\ngroup by customer\n` }

export const RESULT = 'select * from gold.revenue order by revenue desc'
