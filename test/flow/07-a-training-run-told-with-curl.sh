#!/bin/sh
# A whole training run, told with curl: everything is logged, read back, moved about and deleted.
#
#   SVC_URL=http://127.0.0.1:8480 SVC_KEY=... SVC_WORKSPACE=... sh test/flow/07-a-training-run-told-with-curl.sh
#
# Each step says what it does and checks what came back; the first that is wrong ends the script with 1.
set -eu
: "${SVC_URL:?the address of the service}" "${SVC_KEY:?an API key}" "${SVC_WORKSPACE:?a workspace of that key}"
api=$SVC_URL/api/rest/v2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
steps=0

say() { steps=$((steps + 1)); printf '%2d  %s\n' "$steps" "$1"; }
fail() { printf 'not as expected: %s\n%s\n' "$1" "$answer" >&2; exit 1; }
has() { case $answer in *"$1"*) ;; *) fail "no $1" ;; esac; }
hasnot() { case $answer in *"$1"*) fail "there is $1" ;; esac; }
# The text of a field of the last answer.
field() { printf '%s' "$answer" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

call() { answer=$(curl -sS -H "Authorization: $SVC_KEY" "$@"); }
get() { call "$api/$1"; }
post() { call -H 'Content-Type: application/json' -d "$2" "$api/$1"; }
saved() { post "$1" "$2"; has '"msg":"Saved"'; has '"code":200'; }
# Logged data is readable within moments, not at once.
getuntil() {
  tries=0
  get "$1"
  while case $answer in *"$2"*) false ;; esac; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || fail "no $2 after 20 s"
    sleep 0.2
    get "$1"
  done
}

say 'a project and an experiment in it'
name=curl-$(date +%s)-$$
post write/project/create "{\"workspaceName\":\"$SVC_WORKSPACE\",\"projectName\":\"$name\",\"projectDescription\":\"told with curl\",\"isPublic\":false}"
project=$(field projectId)
post write/experiment/create "{\"workspaceName\":\"$SVC_WORKSPACE\",\"projectName\":\"$name\",\"experimentName\":\"first run\"}"
key=$(field experimentKey)
has "/$SVC_WORKSPACE/$name/$key"
of="\"experimentKey\":\"$key\""

say 'it lives: keep-alive, then running'
get "write/experiment/set-status?experimentKey=$key"
has '"isAliveBeatDurationMillis":10000'
getuntil "experiment/metadata?experimentKey=$key" '"running":true'

say 'parameters, others, tags'
saved write/experiment/parameter "{$of,\"parameterName\":\"learning_rate\",\"parameterValue\":0.001}"
saved write/experiment/log-other "{$of,\"key\":\"dataset\",\"value\":\"digits\"}"
saved write/experiment/tags "{$of,\"addedTags\":[\"baseline\",\"curl\"]}"
get "experiment/parameters?experimentKey=$key"; has '"name":"learning_rate"'; has '"valueCurrent":"0.001"'
get "experiment/log-other?experimentKey=$key"; has '"name":"Name"'; has '"valueCurrent":"digits"'
get "experiment/tags?experimentKey=$key"; has '["baseline","curl"]'

say 'metrics: one point, a batch of rows, a batch of columns'
saved write/experiment/metric "{$of,\"metricName\":\"loss\",\"metricValue\":0.5,\"step\":0,\"context\":\"train\"}"
post write/experiment/metrics/batch "{$of,\"metrics\":[{\"metricName\":\"loss\",\"metricValue\":\"NaN\",\"step\":1,\"context\":\"train\"},{\"metricName\":\"loss\",\"metricValue\":0.25,\"step\":2,\"context\":\"train\"}]}"
has '"accepted":2'
post write/experiment/metrics/batch "{$of,\"series\":[{\"metricName\":\"accuracy\",\"steps\":[0,1,2],\"values\":[0.1,0.5,0.9]}]}"
has '"accepted":3'
# What is sent later may be readable earlier.
getuntil "experiment/metrics/get-metric?experimentKey=$key&metricName=train_loss" '"metricValue":"0.25"'
getuntil "experiment/metrics/get-metric?experimentKey=$key&metricName=train_loss" '"metricValue":"0.5"'
has '"metricValue":"NaN"'; has '"runContext":"train"'
getuntil "experiment/metrics/summary?experimentKey=$key" '"valueMax":"0.9"'

say 'a request repeated with its Idempotency-Key is stored once'
for time in 1 2 3; do
  call -H "Idempotency-Key: $name" -d "{$of,\"metricName\":\"once\",\"metricValue\":$((40 + 2)),\"step\":7,\"timestamp\":1760000000000}" -H 'Content-Type: application/json' "$api/write/experiment/metric"
  has '"msg":"Saved"'
done
saved write/experiment/metric "{$of,\"metricName\":\"after\",\"metricValue\":1}"
getuntil "experiment/metrics/get-metric?experimentKey=$key&metricName=after" '"metricValue":"1.0"'
getuntil "experiment/metrics/get-metric?experimentKey=$key&metricName=once" '"metricValue":"42.0"'
[ "$(printf '%s' "$answer" | grep -o '"metricValue":"42.0"' | wc -l)" -eq 1 ] || fail 'not exactly one'

say 'output lines, in the order of their offsets'
saved write/experiment/output "{$of,\"outputLines\":[{\"output\":\"second\",\"offset\":2},{\"output\":\"first\",\"stderr\":true,\"offset\":1}]}"
getuntil "experiment/output?experimentKey=$key" '"output":"first\nsecond"'

say 'resource usage of every kind'
saved write/experiment/cpu-metrics "{$of,\"cpuPercentUtilization\":[10,90]}"
saved write/experiment/ram-metrics "{$of,\"totalRam\":64000000000,\"usedRam\":8000000000}"
saved write/experiment/load-metrics "{$of,\"loadAverage\":1.5}"
saved write/experiment/gpu-metrics "{$of,\"gpus\":[{\"gpuId\":0,\"freeMemory\":60,\"usedMemory\":20,\"gpuUtilization\":99,\"totalMemory\":80}]}"

say 'what stands around it: html, code, graph, git, system, cloud, file path'
saved write/experiment/html "{$of,\"html\":\"<h1>run</h1>\"}"
saved write/experiment/html "{$of,\"html\":\"<p>more</p>\",\"override\":false}"
saved write/experiment/code "{$of,\"code\":\"print('hello')\"}"
saved write/experiment/graph "{$of,\"graph\":\"a -> b\"}"
saved write/experiment/git/metadata "{$of,\"user\":\"ada\",\"root\":\"/src\",\"branch\":\"main\",\"parent\":\"0123abc\",\"origin\":\"https://git.example/x\"}"
saved write/experiment/system-details "{$of,\"user\":\"ada\",\"hostname\":\"node-1\",\"pid\":7,\"gpuStaticInfoList\":[{\"gpuIndex\":0,\"name\":\"H\",\"uuid\":\"u\",\"totalMemory\":80,\"powerLimit\":700}]}"
saved write/experiment/cloud-details "{$of,\"provider\":\"AWS\",\"metadata\":{\"zone\":\"a\"}}"
saved write/experiment/file-path "{$of,\"filePath\":\"/src/train.py\"}"
get "experiment/html?experimentKey=$key"; has '<h1>run</h1><p>more</p>'
get "experiment/code?experimentKey=$key"; has "print('hello')"
get "experiment/graph?experimentKey=$key"; has 'a -> b'
get "experiment/git/metadata?experimentKey=$key"; has '"branch":"main"'
getuntil "experiment/system-details?experimentKey=$key" '"maxTotalMemory":80'; has '"hostname":"node-1"'
get "experiment/metadata?experimentKey=$key"; has '"filePath":"/src/train.py"'; has '"fileName":"train.py"'

say 'a git patch, and a text sample'
printf 'diff --git a b\n' > "$folder/patch"
call -F "file=@$folder/patch" "$api/write/experiment/git/patch?experimentKey=$key"; has '"msg":"Saved"'
get "experiment/git/patch?experimentKey=$key"; has 'diff --git a b'
saved write/experiment/upload-text-sample "{$of,\"content\":\"a text that the model met\",\"step\":1}"

say 'an asset: uploaded, read whole and in part, tagged, replaced, deleted'
printf '0123456789' > "$folder/weights"
call -F "file=@$folder/weights" -F 'metadata={"a": 1}' "$api/write/experiment/upload-asset?experimentKey=$key&fileName=weights.bin&type=image&step=2"
asset=$(field assetId)
get "experiment/asset/get-asset?experimentKey=$key&assetId=$asset"; [ "$answer" = 0123456789 ] || fail 'other bytes'
call -r 2-4 "$api/experiment/asset/get-asset?experimentKey=$key&assetId=$asset"; [ "$answer" = 234 ] || fail 'another range'
saved write/experiment/asset/tag "{$of,\"assetId\":\"$asset\",\"tags\":[\"best\"]}"
get "experiment/asset/list?experimentKey=$key&type=image"; has '"tags":["best"]'; has '"metadata":"{\"a\": 1}"'
get "write/experiment/asset/tag/delete?experimentKey=$key&assetId=$asset&tag=best"; has '"code":200'
call --data-binary abc -H 'Content-Type: application/octet-stream' "$api/write/experiment/upload-asset?experimentKey=$key&fileName=weights.bin&overwrite=true"
asset=$(field assetId)
get "experiment/asset/list?experimentKey=$key"; has '"fileSize":3'; hasnot '"fileSize":10'
get "write/experiment/asset/delete?experimentKey=$key&assetId=$asset"; has '"msg":"Deleted"'
get "experiment/asset/list?experimentKey=$key"; hasnot weights.bin

say 'a remote asset'
post "write/experiment/assets/remote/batch?experimentKey=$key" '{"remoteAssets":[{"link":"s3://bucket/train.csv","fileName":"train.csv"}]}'
has '"code":200'
get "experiment/asset/list?experimentKey=$key"; has '"link":"s3://bucket/train.csv"'; has '"remote":true'

say 'a model of two files, read as a zip'
call -F "file=@$folder/weights" "$api/write/experiment/upload-asset?experimentKey=$key&fileName=w.bin&type=model-element&groupingName=net"
call -F "file=@$folder/patch" "$api/write/experiment/upload-asset?experimentKey=$key&fileName=config.txt&type=model-element&groupingName=net"
get "experiment/model?experimentKey=$key"; has '"modelName":"net"'
curl -sSf -H "Authorization: $SVC_KEY" -o "$folder/net.zip" "$api/experiment/model/download?experimentKey=$key&modelName=net"
[ "$(head -c 2 "$folder/net.zip")" = PK ] || fail 'not a zip'

say 'an artifact: opened, filled, closed, and used by another experiment'
post write/artifacts/upsert "{$of,\"artifactName\":\"$name\",\"artifactType\":\"dataset\",\"isPublic\":false,\"alias\":[\"prod\"]}"
has '"currentVersion":"1.0.0"'
version=$(field artifactVersionId)
call -F "file=@$folder/weights" "$api/write/experiment/upload-asset?experimentKey=$key&fileName=data.bin&artifactVersionId=$version"
file=$(field assetId)
get "artifacts/version?workspace=$SVC_WORKSPACE&artifactName=$name&alias=prod"; has '"sdk_error_code":90402'
saved write/artifacts/state "{$of,\"artifactVersionId\":\"$version\",\"state\":\"CLOSED\"}"
post write/experiment/create "{\"workspaceName\":\"$SVC_WORKSPACE\",\"projectName\":\"$name\",\"experimentName\":\"second run\"}"
second=$(field experimentKey)
get "artifacts/version?workspace=$SVC_WORKSPACE&artifactName=$name&versionOrAlias=prod&consumerExperimentKey=$second"
has '"state":"CLOSED"'; has '"alias":["prod","Latest"]'; has '"sizeInBytes":10'
get "artifacts/version/files?versionId=$version"; has '"fileName":"data.bin"'
get "experiment/asset/get-asset?experimentKey=$second&assetId=$file&artifactVersionId=$version"; [ "$answer" = 0123456789 ] || fail 'other bytes'
post write/artifacts/upsert "{\"experimentKey\":\"$second\",\"artifactName\":\"$name\"}"; has '"currentVersion":"2.0.0"'; has '"previousVersion":"1.0.0"'

say 'start and end, and a request to stop that the next keep-alive tells'
saved write/experiment/set-start-end-time "{$of,\"startTimeMillis\":1760000000000,\"endTimeMillis\":1760000060000}"
get "experiment/metadata?experimentKey=$key"; has '"durationMillis":60000'
get "write/experiment/stop?experimentKey=$key"; has '"msg":"Stop Requested"'
get "write/experiment/set-status?experimentKey=$key"; has '"stopRequested":true'

say 'archived, and restored'
here="experiments?workspaceName=$SVC_WORKSPACE&projectName=$name"
get "write/experiment/archive?experimentKey=$key"; has '"msg":"Archived"'
get "$here"; hasnot "$key"
get "$here&archived=true"; has "$key"
get "write/experiment/restore?experimentKey=$key"; has '"msg":"Restore"'
get "$here"; has "$key"

say 'moved to another project, and linked back'
post write/project/create "{\"workspaceName\":\"$SVC_WORKSPACE\",\"projectName\":\"$name-moved\",\"projectDescription\":\"\",\"isPublic\":false}"
post write/experiment/move "{\"targetWorkspaceName\":\"$SVC_WORKSPACE\",\"targetProjectName\":\"$name-moved\",\"experimentKeys\":[\"$key\"],\"symlink\":false}"
has '"code":200'
get "$here"; hasnot "$key"
get "experiment/metadata?experimentKey=$key"; has "\"projectName\":\"$name-moved\""
get "write/project/symlink?exerimentKey=$key&projectName=$name"; has "/$SVC_WORKSPACE/$name/$key"
get "$here"; has "$key"

say 'notes, and a link with which anyone may read the project'
saved write/project/notes "{\"projectId\":\"$project\",\"notes\":\"what we learned\"}"
get "write/project/add-share-link?projectId=$project"
code=$(field shareCode)
answer=$(curl -sS "$api/project/notes?projectId=$project&shareCode=$code"); has 'what we learned'
answer=$(curl -sS "$api/experiment/tags?experimentKey=$key&shareCode=$code"); has baseline
get "write/project/delete-project-share-link?projectId=$project&shareCode=$code"; has '"msg":"Deleted"'
answer=$(curl -sS "$api/project/notes?projectId=$project&shareCode=$code"); has '"sdk_error_code":8000007'

say 'deleted: gone for all, until it is restored; then deleted for good'
get "write/experiment/delete?experimentKey=$key"; has '"msg":"Deleted"'
get "experiment/metadata?experimentKey=$key"; has '"sdk_error_code":90211'
get "write/experiment/restore?experimentKey=$key"; has '"msg":"Restore"'
get "experiment/metrics/get-metric?experimentKey=$key&metricName=accuracy"; has '"metricValue":"0.9"'
get "write/experiment/delete?experimentKey=$key"; has '"msg":"Deleted"'
get "experiment/asset/get-asset?experimentKey=$second&assetId=$file&artifactVersionId=$version"; [ "$answer" = 0123456789 ] || fail 'the artifact went with it'

say 'the projects are deleted with what is left in them'
for each in "$name" "$name-moved"; do
  post write/project/delete "{\"workspaceName\":\"$SVC_WORKSPACE\",\"projectName\":\"$each\",\"deleteAllExperiments\":true}"
  has '"msg":"Deleted"'
done
get "projects?workspaceName=$SVC_WORKSPACE"; hasnot "\"projectName\":\"$name"

echo "All $steps steps went as they should."
