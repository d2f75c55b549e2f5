{{- define "ringmaster.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 46 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 35 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{- define "ringmaster.operator" -}}
{{ include "ringmaster.fullname" . }}-operator
{{- end -}}

{{/* The labels of every object. */}}
{{- define "ringmaster.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: ringmaster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The labels of the operator's Pods; selectors cannot change later. The NetworkPolicies of jobs admit the operator by its name, so
     the name is the same under every alias of the chart. */}}
{{- define "ringmaster.selectorLabels" -}}
app.kubernetes.io/name: ringmaster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "ringmaster.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "ringmaster.operator" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* The version of an image (.of, the value of .key): its digest, or its tag, which defaults to .tag. Rejects a registry in its repository after another. */}}
{{- define "ringmaster.imageVersion" -}}
{{- if and .of.tag .of.digest -}}
{{- fail (printf "%s.tag is set, but so is %s.digest, which the chart of a release sets by default and which takes precedence: set only one of them; to use the tag: --set %s.digest= --set %s.tag=%s" .key .key .key .key .of.tag) -}}
{{- end -}}
{{- $registry := regexFind "^[^/]*[.:][^/]*/|^localhost/" .of.repository | trimSuffix "/" -}}
{{- if and $registry (or .of.registry (ne .key "image")) -}}
{{- fail (printf "%s.repository starts with a registry, but it is appended to another registry, %s.registry or its default: write --set %s.registry=%s --set %s.repository=%s" .key .key .key $registry .key (trimPrefix (printf "%s/" $registry) .of.repository)) -}}
{{- end -}}
{{- if .of.digest }}@{{ .of.digest }}{{ else }}:{{ .of.tag | default .tag }}{{ end -}}
{{- end -}}

{{- define "ringmaster.image" -}}
{{- with .Values.image -}}
{{- if not (or .registry (contains "/" .repository)) -}}
{{- fail "image.registry is not set, so no node could find the images: set it to where they were pushed, for example --set image.registry=registry.example.com/team, or install the chart of a release, which names its own: oci://registry.example.com/team/charts/ringmaster" -}}
{{- end -}}
{{- with .registry }}{{ . }}/{{ end -}}
{{- .repository -}}
{{- include "ringmaster.imageVersion" (dict "of" . "key" "image" "tag" $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The registry of the operator's image, and the default of the others': image.registry and the folders of image.repository. */}}
{{- define "ringmaster.registry" -}}
{{- list .Values.image.registry (regexReplaceAll "/?[^/]*$" .Values.image.repository "") | compact | join "/" -}}
{{- end -}}

{{/* The name of an image other than the operator's (.of), without its version. */}}
{{- define "ringmaster.imageName" -}}
{{- with .of.registry | default (include "ringmaster.registry" .) }}{{ . }}/{{ end -}}
{{- .of.repository -}}
{{- end -}}

{{- define "ringmaster.imageBeside" -}}
{{- include "ringmaster.imageName" . -}}
{{- include "ringmaster.imageVersion" (dict "of" .of "key" .key "tag" (.Values.image.tag | default .Chart.AppVersion)) -}}
{{- end -}}

{{- define "ringmaster.toolsImage" -}}
{{- include "ringmaster.imageBeside" (merge (dict "of" .Values.toolsImage "key" "toolsImage") .) -}}
{{- end -}}

{{- define "ringmaster.workerImage" -}}
{{- include "ringmaster.imageBeside" (merge (dict "of" .Values.workerImage "key" "workerImage") .) -}}
{{- end -}}

{{- define "ringmaster.ownImages" -}}
{{- if .Values.ownImages -}}
{{- join "," .Values.ownImages -}}
{{- else -}}
{{- include "ringmaster.imageName" (merge (dict "of" .Values.workerImage) .) }}
{{- end -}}
{{- end -}}

{{/* Whether /metrics checks tokens: the permission to review tokens is cluster-wide. */}}
{{- define "ringmaster.metricsAuthorization" -}}
{{ eq .Values.watchNamespace "" }}
{{- end -}}

{{/* The presets that some namespace may use, in the format of the operator's flag; empty: none. */}}
{{- define "ringmaster.presets" -}}
{{- $presets := dict -}}
{{- $specs := .Files.Get "files/presets.yaml" | fromYaml -}}
{{- range $name, $namespaces := .Values.presets -}}
{{- if $namespaces -}}
{{- $_ := set $presets $name (merge (dict "namespaces" $namespaces) (index $specs $name)) -}}
{{- end -}}
{{- end -}}
{{- if $presets }}{{ toJson $presets }}{{ end -}}
{{- end -}}

{{/* The labels of a hook's Pod (.component), with those that are set for the operator's Pods. */}}
{{- define "ringmaster.hookPodLabels" -}}
{{- merge (dict "app.kubernetes.io/component" .component) (include "ringmaster.labels" . | fromYaml) .Values.podLabels | toYaml -}}
{{- end -}}

{{/* The Secret with the certificate for /metrics; empty: none. The last step of `helm uninstall` (.hookFlag) serves no /metrics, and
     must also run if the Secret does not exist. */}}
{{- define "ringmaster.certificateSecret" -}}
{{- if not .hookFlag }}{{ .Values.metrics.certificateSecret | default "" }}{{ end -}}
{{- end -}}

{{/* The common fields of the operator's Pods and of the hooks' Pods: the Pod's fields, then the container's. A hook's Pod
     (.isHook) may run beside the operator's, and have another ServiceAccount (.hookAccount) and one more flag (.hookFlag). */}}
{{- define "ringmaster.podSpec" -}}
serviceAccountName: {{ .hookAccount | default (include "ringmaster.serviceAccount" .) }}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $affinity := .Values.affinity }}
{{- if .isHook }}{{ $affinity = pick (.Values.affinity | default dict) "nodeAffinity" }}{{ end }}
{{- with $affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "ringmaster.certificateSecret" . }}
volumes:
  - name: metrics-certificates
    secret: {secretName: {{ . }}}
{{- end }}
{{- end -}}

{{- define "ringmaster.container" -}}
image: {{ include "ringmaster.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  {{- with .Values.watchNamespace }}
  - --watch-namespace={{ . }}
  {{- end }}
  {{- with .Values.excludeNamespaces }}
  - --exclude-namespaces={{ join "," . }}
  {{- end }}
  {{- with include "ringmaster.presets" . }}
  - {{ printf "--presets=%s" . | squote }}
  {{- end }}
  {{- if .Values.toolsImage.enabled }}
  - --tools-image={{ include "ringmaster.toolsImage" . }}
  - --own-images={{ include "ringmaster.ownImages" . | trim }}
  {{- end }}
  {{- if .Values.workerImage.enabled }}
  - --worker-image={{ include "ringmaster.workerImage" . }}
  {{- end }}
  - --job-network-policies={{ .Values.jobNetworkPolicies }}
  - --metrics-authorization={{ include "ringmaster.metricsAuthorization" . }}
  {{- if include "ringmaster.certificateSecret" . }}
  - --metrics-certificates=/etc/ringmaster/metrics-certificates
  {{- end }}
  - --workers={{ .Values.workers }}
  - --log-level={{ .Values.logLevel }}
  - --log-format={{ .Values.logFormat }}
  - --lease-name={{ .Values.lease.name }}
  - --lease-duration={{ .Values.lease.duration }}
  - --renew-deadline={{ .Values.lease.renewDeadline }}
  - --retry-period={{ .Values.lease.retryPeriod }}
  {{- range .Values.extraArgs }}
  - {{ . | quote }}
  {{- end }}
  {{- with .hookFlag }}
  - {{ . }}
  {{- end }}
env:
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  - name: POD_NAMESPACE
    valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if include "ringmaster.certificateSecret" . }}
volumeMounts:
  - {name: metrics-certificates, mountPath: /etc/ringmaster/metrics-certificates, readOnly: true}
{{- end }}
{{- with .Values.resources }}
resources: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.securityContext }}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
