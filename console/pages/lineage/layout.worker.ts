// The layout algorithm of ELK. The script answers the messages of `elk-api`.
import 'elkjs/lib/elk-worker.min.js'
