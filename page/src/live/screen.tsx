export function Live() { return <p>later</p> }
