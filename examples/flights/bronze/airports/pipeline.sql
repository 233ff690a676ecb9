-- @description: Every airport of the landing files, as it came
select * from read_csv_auto('{{ landing_zone("airports") }}')
