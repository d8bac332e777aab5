// Placeholder while the parts are put together.
export function LatencyView() { return <p>later</p> }
