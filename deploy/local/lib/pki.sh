# shellcheck shell=bash
# Creates the keys, certificates and kubeconfig files of one cluster. All keys are P-256 keys; the files are in $STATE/pki, and
# only their owner can read them.

pki_begin() {
  mkdir -p "$STATE/pki"
  chmod 0700 "$STATE/pki"
  cat >"$STATE/pki/openssl.conf" <<'C'
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
[leaf]
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth,clientAuth
C
  new_certificate ca /CN=ringmaster-local-ca -extensions authority
  openssl ecparam -name prime256v1 -genkey -noout -out "$STATE/pki/sa.key"
  openssl ec -in "$STATE/pki/sa.key" -pubout -out "$STATE/pki/sa.pub" 2>/dev/null
}

new_certificate() { # file subject openssl-options...
  local file=$STATE/pki/$1 subject=$2
  shift 2
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 365 -config "$STATE/pki/openssl.conf" \
    -keyout "$file.key" -out "$file.crt" -subj "$subject" "$@" 2>"$file.err" ||
    die "while creating the certificate of $subject: $(tail -n 1 "$file.err")"
  rm -f "$file.err"
}

certificate() { # file subject [subjectAltName]
  new_certificate "$1" "$2" -CA "$STATE/pki/ca.crt" -CAkey "$STATE/pki/ca.key" -extensions leaf \
    ${3:+-addext "subjectAltName=$3"}
}

# Writes a kubeconfig that contains the keys, so that the file can be copied anywhere on this machine.
kubeconfig() { # file certificate [namespace]
  local pki=$STATE/pki out=$STATE/$1.kubeconfig
  (
    umask 077
    cat >"$out" <<Y
apiVersion: v1
kind: Config
clusters:
- name: $NAME
  cluster: {server: "$(setting server)", certificate-authority-data: $(base64 -w0 "$pki/ca.crt")}
users:
- name: $1
  user: {client-certificate-data: $(base64 -w0 "$pki/$2.crt"), client-key-data: $(base64 -w0 "$pki/$2.key")}
contexts:
- name: $NAME
  context: {cluster: $NAME, user: $1, namespace: ${3:-default}}
current-context: $NAME
Y
  )
}

identity() { # name subject [subjectAltName]: makes a certificate and a kubeconfig that contains it
  certificate "$1" "$2" "${3:-}"
  kubeconfig "$1" "$1"
}
