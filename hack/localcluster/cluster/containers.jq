# What a pod's containers would do, as far as their commands tell. These
# definitions stand before every expression of stages.yaml that begins with
# @containers@. A command that says nothing leaves the pod to the rules for pods
# without one.

def annotation($name): .metadata.annotations["localcluster.orrery/" + $name];
def ofjob: any(.metadata.ownerReferences[]?; .kind == "Job");
def alive: .metadata.deletionTimestamp == null and .status.phase == "Running";
def isready: any(.status.conditions[]?; .type == "Ready" and .status == "True");
def restarts: [.status.containerStatuses[]?.restartCount] | max // 0;
def number($pattern): [capture($pattern).n | tonumber][0];

# Whether the images can be pulled; one whose name says that it is not there cannot.
def pulled: any(.spec.containers[]?.image // empty; test("non-?existent|does-not-exist|:404$")) | not;
# Whether the readiness probes will succeed. Only an exec probe can say that it will not.
def probed: any(.spec.containers[]?.readinessProbe.exec.command // empty;
  join(" ") | test("(^|/)false$|exit [1-9]|^test -f ")) | not;
def wanted: annotation("ready") as $told | if $told then $told != "false" else probed end;
def steady: wanted == isready;
# When the first probe runs, as a time; null for at once.
def probetime: ([.spec.containers[]?.readinessProbe.initialDelaySeconds // 0] | max // 0) as $delay
  | if $delay > 0 and .status.startTime then .status.startTime | fromdate + $delay | todate else null end;

def words: (.command // []) + (.args // []);
def program: words[0] // "" | split("/") | last // "";
def shell: program | . == "sh" or . == "bash" or . == "ash";
def script: if shell and any(words[]; . == "-c") then words[-1] else "" end;

# The exit code of a shell script that ends by itself; null when it does not end,
# or when nothing can be said. A file that tells the first run from the next ones
# is remembered as long as its volume: in the pod by the number of restarts, on
# the node by nobody, so that such a pod waits to be told with annotations.
def scriptcode($pod):
  if test("-r /") then
    if any($pod.spec.volumes[]?; .hostPath) then null
    elif $pod | restarts > 0 then 0
    else number("exit (?<n>[1-9][0-9]*)") end
  elif test("while|trap|infinity|tail -f|wait") then null
  elif test("JOB_COMPLETION_INDEX.*% *2") then
    $pod.metadata.annotations["batch.kubernetes.io/job-completion-index"] // "0" | tonumber % 2
  elif test("RANDOM") then if $pod.metadata.uid // "" | test("[0-7]$") then 0 else 1 end
  elif test("exit [0-9]") then number("exit (?<n>[0-9]+)")
  elif test("(^|[^a-z])false\\s*$") then 1
  elif test("^\\s*(sleep [0-9]+|true|:|echo [^;&|]*)\\s*$") then 0
  elif $pod | ofjob then 0
  else null end;

# The exit code of a container; null when it keeps running.
def code($pod):
  if .command == null and (.image // "" | test("pause|agnhost|nginx|httpd")) then null
  elif program == "true" then 0
  elif program == "false" then 1
  elif program == "sleep" then if words[1] // "" | test("^[0-9]+$") then 0 else null end
  elif program == "pause" then null
  elif script != "" then script | scriptcode($pod)
  elif $pod | ofjob then 0
  else null end;

# For how many seconds a container that ends runs before.
def runtime:
  if program == "sleep" then words[1] // "" | number("^(?<n>[0-9]+)$") // 0
  else script | number("sleep (?<n>[0-9]+)") // 0 end;

# Whether annotations and not commands decide how the containers end.
def told: annotation("run-for") != null or (ofjob and annotation("exit-code") != null);
# Whether nothing tells that the containers end, without looking closer: most pods are of this kind.
def mute: annotation("run-for") == null and (ofjob | not)
  and (any(.spec.containers[]?; .command != null or .args != null) | not);
# The exit code of the pod; null while it runs. It ends when its last container ends.
def outcome: . as $pod
  | if told then annotation("exit-code") // "0" | tonumber
    else [.spec.containers[]? | code($pod)]
      | if length == 0 then (if $pod | ofjob then 0 else null end)
        elif any(.[]; . == null) then null
        else max end
    end;
def again: .spec.restartPolicy as $policy
  | ($policy == "OnFailure" and outcome != 0) or ($policy == "Always" and (told | not));
def later($seconds): ([.status.containerStatuses[]?.state.running.startedAt // empty] | max) as $start
  | if $seconds > 0 and $start then $start | fromdate + $seconds | todate else null end;
def runtimes: [.spec.containers[]? | runtime] | max // 0;
# When the containers end: a duration, a time, or null for at once.
def endtime: annotation("run-for") // (if told then null else later(runtimes) end);
# The same for containers that start again, with a back-off when commands decide.
def restarttime: annotation("run-for") // (if told then null
  else later(runtimes + ([pow(2; restarts), 300] | min)) end);
# How long a deleted pod takes to end: what its preStop hooks and its trap for SIGTERM sleep.
def lasts: annotation("terminate-after") // ([.spec.containers[]?
    | (.lifecycle.preStop.sleep.seconds // empty),
      (.lifecycle.preStop.exec.command // empty | join(" ") | number("sleep (?<n>[0-9]+)") // empty),
      (script | select(test("trap")) | number("\\(\\) *\\{\\s*sleep (?<n>[0-9]+)") // empty)]
  | if length == 0 then null else "\(max)s" end);
