"""kubernetes.py FILE - the objects of a YAML file hold to the schema below: each field is one of Kubernetes' own, has its type, and those
that are needed are there; a pod has memory for NCCL, and lives longer after SIGTERM than ddprun gives its ranks (--grace). Prints a line for each that does not, and else the commands of the containers, one a line: kind,
variables as NAME=VALUE, `--`, command.

The schema has what samples/cluster uses. A field's name ends in `!` where it is needed. A list holds one schema for its elements; a
set, the values that are allowed.
"""
import copy
import shlex
import sys

import yaml

METADATA = {"name!": str}
POD = {
    "restartPolicy!": {"Never", "OnFailure"},
    "subdomain": str,
    "terminationGracePeriodSeconds": int,
    "volumes": [{"name!": str, "secret": {"secretName!": str}, "emptyDir": {"medium": {"Memory"}}}],
    "containers!": [{"name!": str, "image!": str, "command!": [str], "env": [{"name!": str, "value!": str}],
                     "volumeMounts": [{"name!": str, "mountPath!": str}], "resources": {"limits!": {"nvidia.com/gpu!": int}}}],
}
REPLICAS = {"replicas!": int, "restartPolicy!": {"Never", "OnFailure", "Always", "ExitCode"},
            "template!": {"spec!": {**{k: v for k, v in POD.items() if k != "restartPolicy!"}, "restartPolicy": {"Never"}}}}
RUNTIME_POD = {**POD, "containers!": [{name: below for name, below in POD["containers!"][0].items() if name != "resources"}]}
RUNTIME_JOB = {"name!": {"node"}, "template!": {
    "metadata!": {"labels!": {"trainer.kubeflow.org/trainjob-ancestor-step!": {"trainer"}}},
    "spec!": {"template!": {"spec!": RUNTIME_POD}}}}
TRAINER = {"image": str, "args": [str], "numNodes": int, "numProcPerNode": int,
           "resourcesPerNode!": {"limits!": {"nvidia.com/gpu!": int}}}  # without a GPU there, `auto` counts processors
KINDS = {
    ("v1", "Service"): {"clusterIP": {"None"}, "publishNotReadyAddresses": bool, "selector!": {"job-name!": str}},
    ("batch/v1", "Job"): {"completions!": int, "parallelism!": int, "completionMode!": {"Indexed"}, "backoffLimit": int,
                          "template!": {"spec!": POD}},
    ("kubeflow.org/v1", "PyTorchJob"): {"nprocPerNode": str, "pytorchReplicaSpecs!": {"Master!": REPLICAS, "Worker": REPLICAS}},
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): {
        "mlPolicy!": {"numNodes": int, "torch!": {"numProcPerNode": {"auto", "gpu"}}},
        "template!": {"spec!": {"replicatedJobs!": [RUNTIME_JOB]}}},
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): {
        "runtimeRef!": {"name!": str, "kind!": {"TrainingRuntime"}}, "trainer!": TRAINER},
}
bad = []


def check(value, schema, at):
    if isinstance(schema, set):
        if value not in schema:
            bad.append("%s is %r, not one of %s" % (at, value, ", ".join(sorted(schema))))
    elif isinstance(schema, list):
        if not isinstance(value, list) or not value:
            bad.append("%s is no list" % at)
            return
        for number, element in enumerate(value):
            check(element, schema[0], "%s[%d]" % (at, number))
    elif isinstance(schema, dict):
        if not isinstance(value, dict):
            bad.append("%s is no object" % at)
            return
        fields = {name.rstrip("!"): below for name, below in schema.items()}
        for name in value:
            if name not in fields:
                bad.append("%s has a field %s, which Kubernetes does not" % (at, name))
            else:
                check(value[name], fields[name], "%s.%s" % (at, name))
        for name in schema:
            if name.endswith("!") and name[:-1] not in value:
                bad.append("%s has no %s" % (at, name[:-1]))
    elif type(value) is not schema:
        bad.append("%s is %r, not of type %s" % (at, value, schema.__name__))


def grace_of(command):
    return int(command[command.index("--grace") + 1]) if "--grace" in command else 30


def train_pods(item):
    """Those of a TrainJob: its runtime's, with its own arguments."""
    for runtime in items:
        if runtime["kind"] != "TrainingRuntime" or runtime["metadata"]["name"] != item["spec"]["runtimeRef"]["name"]:
            continue
        for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
            pod = copy.deepcopy(job["template"]["spec"]["template"]["spec"])
            for container in pod["containers"]:
                container["command"] += item["spec"]["trainer"].get("args", [])
            yield pod


def pods(item):
    if item["kind"] == "Job":
        yield item["spec"]["template"]["spec"]
    if item["kind"] == "TrainJob":
        yield from train_pods(item)
    for replicas in item["spec"].get("pytorchReplicaSpecs", {}).values():
        yield replicas["template"]["spec"]


with open(sys.argv[1], encoding="utf-8") as file:
    items = list(yaml.safe_load_all(file))
for item in items:
    kind = (item.get("apiVersion"), item.get("kind"))
    if kind not in KINDS:
        bad.append("%s is no kind that is known here" % (kind,))
    else:
        check(item, {"apiVersion!": str, "kind!": str, "metadata!": METADATA, "spec!": KINDS[kind]}, kind[1])
if not bad:
    for item in items:
        for pod in pods(item):
            mounted = {volume["name"] for volume in pod.get("volumes", [])}
            for container in pod["containers"]:
                for mount in container.get("volumeMounts", []):
                    if mount["name"] not in mounted:
                        bad.append("%s mounts %s, which is no volume" % (container["name"], mount["name"]))
                if "/dev/shm" not in [mount["mountPath"] for mount in container.get("volumeMounts", [])]:
                    bad.append("%s has the usual 64 MiB of shared memory, too little for NCCL" % container["name"])
                if pod.get("terminationGracePeriodSeconds", 30) <= grace_of(container["command"]):
                    bad.append("%s is killed before the time of --grace is over" % container["name"])
                variables = ["%s=%s" % (one["name"], one["value"]) for one in container.get("env", [])]
                print(item["kind"], *variables, "--", *map(shlex.quote, container["command"]))
print(*bad, sep="\n", end="\n" if bad else "")
sys.exit(bool(bad))
