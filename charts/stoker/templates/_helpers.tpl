{{/* Name of the application, for labels. */}}
{{- define "stoker.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/*
What the names of objects start with: the release's name, and ours where the release's does not say it.
Cut so that the longest that is added, `-operator-lease`, still fits into 63 characters.
*/}}
{{- define "stoker.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else if contains (include "stoker.name" .) .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "stoker.name" .) | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "stoker.operator" -}}
{{ include "stoker.fullname" . }}-operator
{{- end -}}

{{- define "stoker.gateway" -}}
{{ include "stoker.fullname" . }}-gateway
{{- end -}}

{{/* What clients set as the base URL of the API, and every `status.url` says. */}}
{{- define "stoker.gatewayUrl" -}}
{{- default (printf "http://%s.%s.svc/v1" (include "stoker.gateway" .) .Release.Namespace) .Values.gateway.url -}}
{{- end -}}

{{/* Labels of an object. Call with (list . "component"), or with labels of its own as a third. */}}
{{- define "stoker.labels" -}}
{{- $root := first . -}}
{{- $own := dict -}}
{{- if gt (len .) 2 -}}
{{- $own = last . -}}
{{- end -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "stoker.selectorLabels" (list $root (index . 1)) }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: stoker
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- with merge (dict) $own $root.Values.commonLabels }}
{{- range $key, $_ := . }}
{{- if regexMatch "^(app\\.kubernetes\\.io|helm\\.sh)/" $key }}
{{- fail (printf "The label %s is the chart's own: take it out of commonLabels, podLabels and serviceMonitor.labels." $key) }}
{{- end }}
{{- end }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The labels that never change: a Deployment's selector cannot. Call with (list . "component"). */}}
{{- define "stoker.selectorLabels" -}}
{{- $root := first . -}}
app.kubernetes.io/name: {{ include "stoker.name" $root | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/component: {{ last . }}
{{- end -}}

{{/* An image's whole name. Call with (list . .Values.image). */}}
{{- define "stoker.image" -}}
{{- $root := first . -}}
{{- $image := last . -}}
{{- $name := $image.repository -}}
{{- with $root.Values.image.registry -}}
{{- $name = printf "%s/%s" (trimSuffix "/" .) $name -}}
{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default $root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}
