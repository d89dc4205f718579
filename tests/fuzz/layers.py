"""Settings that belong together: alone each renders, and most do so in any company."""

from tests.chart.helm import Document
from tests.chart.test_crd import FULL

NO_CLAIM: Document = {"existingClaim": None}

SOUND: tuple[Document, ...] = (
    FULL,
    {"gpusPerNode": 0, "recipe": {"backend": "transformers"}},
    {"nodes": 1, "workspace": {**NO_CLAIM, "emptyDir": {"sizeLimit": "200Gi"}}},
    {"workspace": {**NO_CLAIM, "pvc": {"size": "2Ti", "storageClassName": "fast"}}},
    {"workspace": {**NO_CLAIM, "nfs": {"server": "nfs.example.com", "path": "/export"}}},
    {"workspace": {**NO_CLAIM, "hostPath": {"path": "/mnt/lustre"}}},
    {"workspace": {"subPath": "team/a", "mountPath": "/data"}},
    {"stages": {"placement": "jobs", "convert": {"skip": True}}},
    {"stages": {"clone": {"skip": True}, "train": {"skip": True}}},
    {"kueue": {"queue": "team", "priorityClass": "high", "maxExecTimeSeconds": 86400}},
    {"kueue": {"queue": "team", "topology": {"mode": "required", "key": "cloud.com/rack"}}},
    {"kueue": {"queue": "a", "topology": {"mode": "none", "slice": {"size": 1, "key": "host"}}}},
    {"network": {"profile": "ib-shared", "resourceName": "rdma/ib", "resourceCount": 8}},
    {"network": {"env": {"NCCL_IB_HCA": "mlx5", "NCCL_DEBUG_SUBSYS": "INIT,NET", "A": 1.5}}},
    {"code": {"url": "git@git.example.com:a/b", "ref": "v1", "existingSecret": "git"}},
    {"recipe": {"args": {"lr": 5e-7, "packing": True, "report_to": ["tensorboard", "wandb"]}}},
    {"recipe": {"args": {"megatron_extra_kwargs": {"eps": 1e-7, "n": 10**6}, "max_length": 10**6}}},
    {"recipe": {"args": {"tensor_model_parallel_size": 4, "sequence_parallel": True}}},
    {"recipe": {"checkFlags": False, "args": {"of_another_image": "a: b # c\n- d"}}},
    {"recipe": {"dataset": ["hf://o/d@main#500", "file:///data/a b.jsonl", "ms://o/d@v1/é"]}},
    {"extraEnv": {"A": "{{ .Values }}", "B": 1000000, "C": True, "D": "a\nb", "E": None}},
    {"extraEnv": {"P": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}}},
    {
        "extraVolumes": [{"name": "more", "configMap": {"name": "x"}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more", "readOnly": True}],
    },
    {"podSecurityContext": {"runAsNonRoot": False, "runAsUser": 0, "runAsGroup": 0}},
    {
        "podSecurityContext": {"runAsNonRoot": False, "runAsUser": 0},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"], "drop": []}, "privileged": None},
    },
    {"podAnnotations": {"example.com/a": 1000000, "b": True, "c": "x: y"}, "podLabels": {"t": ""}},
    {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]},
    {"resources": {"limits": {"memory": "1Ti", "example.com/nic": 2}, "requests": {"cpu": "96"}}},
    {"test": {"resources": {"limits": {"memory": "1Gi"}}}, "ttlSecondsAfterFinished": None},
    {"image": {"tag": "", "digest": "sha256:" + "0" * 64, "pullSecrets": ["a", "b"]}},
    {
        "restarts": {"max": 0, "inPlace": 0, "nodeLostSeconds": None},
        "terminationGracePeriodSeconds": 1,
    },
    {
        "gpuResource": "nvidia.com/gpu.shared",
        "gpusPerNode": 4,
        "nodes": 4,
        "sharedMemory": {"sizeLimit": "1Mi"},
    },
    {"localCheckpoints": {"hostPath": {"path": "/mnt/nvme"}, "emptyDir": None}},
    {
        "extraInitContainers": [
            {"name": "a", "image": "a:1", "securityContext": {"capabilities": None}}
        ]
    },
)
