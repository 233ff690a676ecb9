-- @description: Every flight of the landing files, unchanged
select * from read_parquet('{{ landing_zone("flights") }}')
