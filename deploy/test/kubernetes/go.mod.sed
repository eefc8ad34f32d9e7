# From k8s.io/kubernetes' own go.mod to that of a module beside it (sed -E). It names its own parts by folders of
# its repository, with v0.0.0 for a version and nothing after it: v0.0.0-2026… is a commit of another repository.
# Each of its parts is published, too, as @PUBLISHED@.
s#^module .*#module silverback/cluster#
s#^(\tk8s\.io/[a-z-]+) v0\.0\.0( |$)#\1 @PUBLISHED@\2#
s#^\t(k8s\.io/[a-z-]+) => \./staging/.*#\t\1 => \1 @PUBLISHED@#
/k8s\.io\/sample-/d
