-- @description: Every airport of the landing files, unchanged
select * from read_csv_auto('{{ landing_zone("airports") }}')
