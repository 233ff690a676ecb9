-- @description: Every flight of the landing files, as it came
select * from read_parquet('{{ landing_zone("flights") }}')
