package subscribe

import "anabranch/api/routerpb"

// ordersFeatures say that emergency orders are taken here.
func (c *Client) ordersFeatures() []routerpb.Feature {
	if c.o.Orders == nil {
		return nil
	}
	return []routerpb.Feature{routerpb.Feature_FEATURE_ORDERS}
}

// ordered takes in orders, and obeys at once what they say of tables.
func (c *Client) ordered(m *routerpb.Orders) {
	if c.o.Orders != nil {
		c.o.Orders(m)
	}
}
