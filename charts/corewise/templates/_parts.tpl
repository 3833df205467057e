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

{{/* The ports of manager and scheduler: those of the node have to be free there. */}}
{{- define "corewise.webhookPort" -}}
{{ if .hostNetwork.enabled }}{{ .hostNetwork.webhookPort }}{{ else }}9443{{ end }}
{{- end -}}
{{- define "corewise.metricsPort" -}}
{{ if .hostNetwork.enabled }}{{ .hostNetwork.metricsPort }}{{ else }}8080{{ end }}
{{- end -}}

{{/* What a pod's network and placement are by the values of its program. */}}
{{- define "corewise.placement" -}}
{{- if (.hostNetwork).enabled }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
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

{{/* Requests and limits of a program: its own, or those of the size (files/sizes.yaml). */}}
{{- define "corewise.resources" -}}
{{- $sizes := .Files.Get "files/sizes.yaml" | fromYaml -}}
{{- $program := index (index $sizes (.Values.size | default "medium")) .program -}}
{{- (index .Values .program).resources | default (pick $program "requests" "limits") | toYaml -}}
{{- end -}}
