{{/* The image of all programs. */}}
{{- define "corewise.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default ($.Chart.AppVersion | replace "+" "-") }}{{ end }}
{{- end -}}
{{- end -}}

{{/* Where the ConfigMap slo-controller-config is. */}}
{{- define "corewise.configNamespace" -}}
{{ .Values.config.namespace | default .Release.Namespace }}
{{- end -}}

{{/* What a pod's labels, annotations and placement are by the values of its program. */}}
{{- define "corewise.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The programs' list of namespaces whose pods may be LSE or SYSTEM, where it is not the default. */}}
{{- define "corewise.qosNamespaces" -}}
{{- if ne (toJson .Values.policies.qosClass.namespaces) "[\"kube-system\"]" }}
{{- range .Values.policies.qosClass.namespaces }}
- --restricted-qos-namespace={{ . }}
{{- end }}
{{- end }}
{{- end -}}
