import { inScratch } from './tools/test/scratch.ts'
import { startSparkConnect } from './tools/test/engines/spark-connect.ts'
await inScratch(async () => {
const R = process.env.HOME + '/.m2/repository/org/apache/'
const s = await startSparkConnect('/tmp/sp/vs/bin/python', [R + 'iceberg/iceberg-spark-runtime-4.1_2.13/1.12.0/iceberg-spark-runtime-4.1_2.13-1.12.0.jar', R + 'iceberg/iceberg-aws-bundle/1.12.0/iceberg-aws-bundle-1.12.0.jar', R + 'hadoop/hadoop-aws/3.4.2/hadoop-aws-3.4.2.jar'])
console.log('REMOTE', s.remote)
await Bun.write('/tmp/exp/remote', s.remote)
await new Promise((f) => setTimeout(f, 3_000_000))
return 0
})
