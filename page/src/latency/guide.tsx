// A short guide from nginx's log to a heat map, for copying; weir's guide has the full version.
import { IconButton } from '../ui/button'
import { copy } from '../ui/notify'
import { ScrollBox } from '../ui/scroll-box'

const nginx = `log_format weir escape=json '{'
  '"time":"$time_iso8601","message":"$request","service":"nginx",'
  '"http":{"status_code":"$status","request_id":"$request_id"},'
  '"request_time":"$request_time",'
  '"upstream_response_time":"$upstream_response_time"}';
access_log /var/log/nginx/access.log weir;`

const weir = `[source.nginx]
type = "file"
include = ["/var/log/nginx/access.log"]
format = "raw"

[store]
enabled = true

[store.calculated_fields]
queueing_delay = "@request_time - @upstream_response_time"`

export function Guide() {
  return (
    <div class="guide">
      <p>From nginx to a heat map: log its times, in nginx.conf,</p>
      <Block text={nginx} label="Lines for nginx.conf" />
      <p>and read them with a source, in weir's configuration.</p>
      <Block text={weir} label="Lines for the configuration of weir" />
    </div>
  )
}

function Block({ text, label }: { text: string; label: string }) {
  return (
    <div class="row guide-block">
      <ScrollBox className="state-detail grow" label={label}>
        <pre>{text}</pre>
      </ScrollBox>
      <IconButton icon="copy" label={`Copy: ${label}`} onClick={() => copy(text, 'the lines')} />
    </div>
  )
}
