package table

import (
	"math"
	"testing"

	"anabranch/api/routerpb"
)

func TestAModelMayFareOtherwiseThanItsCluster(t *testing.T) {
	pb := good()
	pb.Clusters[1].ModelHealth = []*routerpb.ModelHealth{
		{Model: "big", Health: "EVACUATED"}, {Model: "of a newer build", Health: "NEW", HealthCap: 0.3},
	}
	tab, err := Build(pb)
	if err != nil {
		t.Fatal(err)
	}
	c := tab.Clusters["eu-g"]
	if got := c.CapOf("big"); got != 0 {
		t.Errorf("the model that is evacuated may take %v", got)
	}
	if got := c.CapOf("llama"); got != 0.5 || c.Cap != 0.5 {
		t.Errorf("the other may take %v, the cluster %v", got, c.Cap)
	}
	if h := c.ModelHealth["big"].Health; h != "EVACUATED" {
		t.Errorf("its state is %q", h)
	}
	for _, bad := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		pb.Clusters[1].ModelHealth[0].HealthCap = bad
		if _, err := Build(pb); err == nil {
			t.Errorf("a cap of %v is taken", bad)
		}
	}
}
