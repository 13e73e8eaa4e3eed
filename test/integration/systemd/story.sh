# What becomes of a host on which the package is installed, used, upgraded, removed and purged. Each line that it says
# is a name and what was seen; package.test.ts knows what should be.
say() { printf '%s\t%s\n' "$1" "$(echo "$2" | tr '\n' ' ' | sed 's/ *$//')"; }
active() { systemctl is-active holdfast.socket holdfast.service holdfast-prober.service; }
resolve() { getent ahostsv4 "$1" | awk '{print $1}' | sort -u; }
wait_for() { for _ in $(seq 1 100); do [ "$(eval "$1")" = "$2" ] && return; sleep 0.1; done; }
pid() { systemctl show -P MainPID holdfast.service; }
of_resolv_conf() { sha256sum /etc/resolv.conf; stat -c '%F %a %u %g' /etc/resolv.conf; }
dynamic() { [ "$(stat -c %u /proc/"$1")" -ge 61184 ] && echo yes; }
before=$(of_resolv_conf)

dpkg -i $FORCE ./*.deb >&2
say installed "$?"
say units-after-install "$(active)"
say version "$(holdfast --version >/dev/null && echo yes)"

cat >/etc/holdfast/holdfast.yaml <<'YAML'
version: 1
zones:
  - name: svc.internal
    registry: { type: file, path: services.yaml }
    check: { type: tcp, interval: 500ms, timeout: 400ms }
    softTtl: 2s
YAML
echo 'services: { orders: { endpoints: [ { address: 127.0.0.1, port: 53 } ] } }' >/etc/holdfast/services.yaml
say refused-without-forward "$(holdfast install --mode resolv-conf --yes >/dev/null 2>&1; echo $?)"
echo 'forward: { resolvConf: resolv.conf }' >>/etc/holdfast/holdfast.yaml
echo '10.9.8.7 printer.lan printer' >>/etc/hosts
holdfast install >&2
say dry-run "$(cat /etc/resolv.conf)"
holdfast install --yes >&2
say install "$?"
say units "$(active)"
say resolv.conf "$(grep -v '^#' /etc/resolv.conf)"
say upstreams "$(grep -v '^#' /etc/holdfast/resolv.conf)"
wait_for 'resolve orders.svc.internal' 127.0.0.1
say libc "$(resolve orders.svc.internal)"
say dynamic-user "$(dynamic "$(pid)")"
say prober-dynamic-user "$(dynamic "$(systemctl show -P MainPID holdfast-prober.service)")"
say transport "$(holdfast status --json | grep '"transport"' | tr -d ' ,')"
wait_for 'holdfast status --json | grep -A1 "\"prober\"" | tail -n 1 | tr -d " ,"' '"state":"ok"'
say prober "$(holdfast status --json | grep -A1 '"prober"' | tail -n 1 | tr -d ' ,')"
say sockets "$(ls -l /proc/"$(pid)"/fd/{3,4} 2>&1 | grep -c socket)"
say status-line "$(systemctl show -P StatusText holdfast.service | grep -c .)"
say refused "$(holdfast status --json | grep -c 'was passed to this server')"
say foreign-user "$(setpriv --reuid nobody --clear-groups holdfast status --json | grep -c '"state"')"

wait_for 'ls /var/lib/holdfast/snapshots | grep -c svc.internal' 1
sleep 1.5
rm /etc/holdfast/services.yaml
cat >/etc/systemd/system/after-lookup.service <<'UNIT'
[Unit]
After=nss-lookup.target
[Service]
Type=oneshot
ExecStart=/usr/bin/getent ahostsv4 orders.svc.internal
UNIT
systemctl daemon-reload
systemctl stop holdfast.service nss-lookup.target
systemctl start holdfast.service after-lookup.service
say at-nss-lookup "$?"

old=$(pid)
kill -KILL "$old"
say through-a-crash "$(resolve orders.svc.internal)"
say another-process "$([ "$(pid)" != "$old" ] && echo yes)"

mkdir -p /etc/systemd/system/holdfast.service.d
printf '[Service]\nWatchdogSec=2s\nTimeoutAbortSec=1s\n' >/etc/systemd/system/holdfast.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart holdfast.service
old=$(pid)
sleep 4
say alive "$([ "$(pid)" = "$old" ] && echo yes)"
kill -STOP "$old"
wait_for '[ "$(pid)" != '"$old"' ] && [ "$(pid)" != 0 ] && echo yes' yes
say hung-one-replaced "$([ "$(pid)" != "$old" ] && echo yes)"
wait_for 'resolve orders.svc.internal' 127.0.0.1
say after-it "$(resolve orders.svc.internal)"
systemctl reload holdfast.service
say reload "$?"
say journal "$(journalctl -u holdfast.service --no-pager -o json --output-fields PRIORITY,MESSAGE | grep '"event.*answering' | grep -o '"PRIORITY":"[0-9]"' | sort -u)"

sed -i 's|^zones:|zones:\n  - { name: reg.internal, registry: { type: file, path: /var/lib/holdfast/registry }, check: { type: none } }|' /etc/holdfast/holdfast.yaml
mkdir /var/lib/holdfast/registry /etc/holdfast/register.d
chown --reference=/var/lib/holdfast/. /var/lib/holdfast/registry
echo '{ name: web, port: 53, address: 127.0.0.1, zone: reg.internal, drain: 500ms }' >/etc/holdfast/register.d/web.yaml
systemctl reload holdfast.service
systemctl enable --now holdfast-register.service >&2
say registrar "$(systemctl is-active holdfast-register.service)"
wait_for 'resolve web.reg.internal' 127.0.0.1
say registered "$(resolve web.reg.internal)"
old=$(systemctl show -P MainPID holdfast-register.service)
say registrar-dynamic-user "$(dynamic "$old")"
kill -KILL "$old"
wait_for '[ "$(systemctl show -P MainPID holdfast-register.service)" != '"$old"' ] && systemctl is-active holdfast-register.service' active
say registered-still "$(resolve web.reg.internal)"
wait_for 'holdfast status --json | grep -c "\"registered\""' 1
rm /etc/holdfast/register.d/web.yaml
systemctl reload holdfast-register.service
wait_for 'resolve web.reg.internal' ''
say unregistered "$(resolve web.reg.internal)"
systemctl disable --now holdfast-register.service >&2
rmdir /etc/holdfast/register.d

dpkg -i $FORCE ./*.deb >&2
say upgraded "$?"
say units-after-upgrade "$(active)"
say conf-kept "$(grep -c resolv.conf /etc/holdfast/holdfast.yaml)"
say resolv.conf-kept "$(grep -v '^#' /etc/resolv.conf)"

dpkg -r holdfast >&2
say removed "$?"
say units-after-removal "$(active)"
say same-resolv.conf "$([ "$before" = "$(of_resolv_conf)" ] && echo yes)"
say left-in-etc "$(ls /etc/holdfast)"
say left-of-systemd "$(find /etc/systemd/system -name '*holdfast*' | grep -v watchdog.conf | grep -v holdfast.service.d)"
dpkg -P holdfast >&2
say purged "$?"
say left "$(find /etc /var/lib /usr /lib -path '*holdfast*' -not -path '/usr/lib/holdfast/*' -not -path '*/systemd/system/holdfast.service.d*' -not -path '/var/lib/dpkg/*' 2>/dev/null | grep -v "^$SOURCE" | head -n 5)"
